"""From the table in seccomp.toml to the filter program that every sandbox loads. Runs in the server, once."""

import errno
import struct
import tempfile
import tomllib
from collections.abc import Iterator
from importlib import resources
from typing import Any

from executor.model.errors import Unavailable

try:
    import pyseccomp
except RuntimeError:  # what it raises where the library is not installed
    pyseccomp = None

_INSTRUCTION = struct.Struct("HBBI")
"""struct sock_filter: code, jump if true, jump if false, operand."""
_RETURN, _JUMP = 0x06, 0x05
"""BPF_RET | BPF_K, BPF_JMP | BPF_JA"""
_OPERATORS = {"eq": "EQ", "ne": "NE", "gt": "GT", "masked": "MASKED_EQ"}


def table() -> dict[str, Any]:
    """The rows as they stand in the file."""
    text = (resources.files(__package__) / "seccomp.toml").read_text()
    return tomllib.loads(text)


def compile_filter() -> bytes:
    """An array of struct sock_filter for this machine's architecture.

    Raises Unavailable where libseccomp is missing or refuses a row.
    """
    if pyseccomp is None:
        raise Unavailable("libseccomp is not installed; install it (Debian: libseccomp2, Fedora: libseccomp)")
    rows = table()
    try:
        return joined(_program(_base(rows)), _program(_arguments(rows)))
    except OSError as error:
        raise Unavailable(f"libseccomp refuses our table: {error}; install version 2.5 or later") from error


def joined(first: bytes, second: bytes) -> bytes:
    """One program that asks `second` wherever `first` allows. Loading one costs half of loading two, and so does each
    system call that is judged; libseccomp itself cannot say "allowed by number, but not with these arguments".
    """
    instructions = [list(one) for one in _INSTRUCTION.iter_unpack(first)]
    for index, instruction in enumerate(instructions):
        if instruction[0] == _RETURN and instruction[3] == pyseccomp.ALLOW:
            instruction[0], instruction[3] = _JUMP, len(instructions) - index - 1
    return b"".join(_INSTRUCTION.pack(*one) for one in instructions) + second


def _base(rows: dict[str, Any]) -> pyseccomp.SyscallFilter:
    program = _filter(pyseccomp.ERRNO(errno.ENOSYS))
    for row in rows["allow"]:
        for name in row["names"].split():
            _add(program, pyseccomp.ALLOW, name)
    for row in rows["allow_if"]:
        for value in row["values"]:
            _add(program, pyseccomp.ALLOW, row["name"], pyseccomp.Arg(0, pyseccomp.EQ, value))
    for row in rows["deny"]:
        number = getattr(errno, row.get("errno", "EPERM"))
        if number != errno.ENOSYS:  # what every other call gets
            for name in row["names"].split():
                _add(program, pyseccomp.ERRNO(number), name)
    return program


def _arguments(rows: dict[str, Any]) -> pyseccomp.SyscallFilter:
    program = _filter(pyseccomp.ALLOW)
    for row in rows["refuse"]:
        action = pyseccomp.ERRNO(getattr(errno, row.get("errno", "EPERM")))
        for tests in _uses(row):
            _add(program, action, row["name"], *(_argument(test) for test in tests))
    return program


def _uses(row: dict[str, Any]) -> Iterator[list[list[Any]]]:
    yield from ([test] for test in row.get("any", ()))
    yield from row.get("all", ())


def _argument(test: list[Any]) -> pyseccomp.Arg:
    number, operator, value, *mask = test
    compare = getattr(pyseccomp, _OPERATORS[operator])
    return pyseccomp.Arg(number, compare, *mask, value)  # libseccomp wants the mask before the value


def _filter(default: int) -> pyseccomp.SyscallFilter:
    program = pyseccomp.SyscallFilter(default)
    program.set_attr(pyseccomp.Attr.ACT_BADARCH, pyseccomp.KILL_PROCESS)
    program.set_attr(pyseccomp.Attr.CTL_OPTIMIZE, 2)  # a binary tree by number
    return program


def _add(program: pyseccomp.SyscallFilter, action: int, name: str, *tests: pyseccomp.Arg) -> None:
    number = pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, name)
    if number >= 0:  # otherwise it is not of this architecture, or younger than this libseccomp, and stays absent
        program.add_rule(action, number, *tests)


def _program(program: pyseccomp.SyscallFilter) -> bytes:
    with tempfile.TemporaryFile() as file:
        program.export_bpf(file)
        file.seek(0)
        return file.read()
