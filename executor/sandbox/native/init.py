"""PID 1 of a sandbox, once it is walled in: waits for its one command, writes its files, starts it, reaps, reports.

It runs under the same filter and limits as the program, as the same user, but the program can neither see nor signal
it. When it has reported it ends, and the kernel kills all that is left in its pid namespace. Imported by the
launcher: stdlib only.
"""

import errno
import json
import os
import signal
import socket
import time
from typing import Any, NoReturn

from executor.sandbox.native import rlimits
from executor.sandbox.native.plan import Rlimits

MAPPED = b"mapped"
ATTACHED = b"attached"
FAULT = 71
"""Exit status of an init that could not do its work (EX_OSERR of sysexits.h)."""
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
BASE_ENVIRONMENT = {
    "HOME": "/workspace",
    "LANG": "C.UTF-8",
    "LOGNAME": "sandbox",
    "PATH": SEARCH_PATH,
    "TMPDIR": "/tmp",  # noqa: S108 - the sandbox's own
    "USER": "sandbox",
}
_DEFAULT_SIGNALS = tuple(sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}))
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def report(control: socket.socket, message: dict[str, Any]) -> None:
    control.send(json.dumps(message).encode())


def expect(control: socket.socket, word: bytes) -> None:
    """Raises OSError where the launcher is gone."""
    if control.recv(len(word)) != word:
        raise OSError(errno.EPIPE, "the launcher went away")


def serve(control: socket.socket, environment: dict[str, str]) -> NoReturn:
    """Park, then run the one command."""
    stdin, stdout, stderr = os.pipe(), os.pipe(), os.pipe()  # made here, so that the program may reopen its own
    places = [os.open(path, _DIRECTORY) for path in ("/workspace", "/tmp", "/dev/shm")]  # noqa: S108
    socket.send_fds(control, [b'{"parked": true}'], [stdin[1], stdout[0], stderr[0], *places])
    for fd in (stdin[1], stdout[0], stderr[0], *places):
        os.close(fd)
    data, fds, _, _ = socket.recv_fds(control, 16, 1)
    if not data or not fds:
        os._exit(0)  # never needed
    with open(fds[0], "rb") as order:  # noqa: PTH123 - a descriptor, not a path
        order.seek(0)
        size = int.from_bytes(order.read(8), "big")
        command = json.loads(order.read(size))
        try:
            rlimits.apply(Rlimits(**command["rlimits"]))
            for entry in command["files"]:
                _write_file(entry["path"], order.read(entry["size"]), 0o755 if entry["executable"] else 0o644)
        except OSError as error:
            report(control, {"staging": f"{error.filename or ''}: {error.strerror}", "errno": error.errno})
            os._exit(0)
    _run(control, command, BASE_ENVIRONMENT | environment | command["environment"], (stdin[0], stdout[1], stderr[1]))


def _write_file(path: str, content: bytes, mode: int) -> None:
    """Below /workspace, which nobody else can write to yet. The path was checked where the call was admitted."""
    directory = os.path.dirname(path)  # noqa: PTH120
    if directory:
        os.makedirs(directory, exist_ok=True)  # noqa: PTH103
    fd = os.open(path, _NEW_FILE, mode)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(fd, view) :]
        os.fchmod(fd, mode)
    finally:
        os.close(fd)


def _run(
    control: socket.socket, command: dict[str, Any], environment: dict[str, str], streams: tuple[int, int, int]
) -> NoReturn:
    argv = [os.fsencode(item) for item in command["argv"]]
    started = time.monotonic_ns()
    try:
        main = _start(argv, {os.fsencode(k): os.fsencode(v) for k, v in environment.items()}, streams)
    except OSError as error:
        report(control, {"not_started": error.strerror, "errno": error.errno})
        os._exit(0)
    for fd in streams:
        os.close(fd)
    report(control, {"started": main})
    while True:
        child = os.waitid(os.P_ALL, 0, os.WEXITED)
        if child is not None and child.si_pid == main:
            how = "exited" if child.si_code == os.CLD_EXITED else "signaled"
            report(control, {how: child.si_status, "wall_ns": time.monotonic_ns() - started})
            os._exit(0)


def _start(argv: list[bytes], environment: dict[bytes, bytes], streams: tuple[int, int, int]) -> int:
    """Raises FileNotFoundError only where no file of that name exists; any other OSError where the kernel refused."""
    refused: OSError | None = None
    for path in _candidates(argv[0], environment.get(b"PATH", b"")):
        if not os.path.lexists(path):
            continue  # to find that out by spawning costs a process each time
        try:
            return os.posix_spawn(
                path,
                argv,
                environment,
                file_actions=[(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(streams)],
                setsid=True,
                setsigmask=(),
                setsigdef=_DEFAULT_SIGNALS,
            )
        except OSError as error:
            refused = refused or _explained(path, error)
    raise refused or FileNotFoundError(errno.ENOENT, "no such command in this image", argv[0])


def _explained(path: bytes, error: OSError) -> OSError:
    if error.errno == errno.ENOENT:
        return OSError(errno.ENOEXEC, "the interpreter that it names does not exist", path)
    return error


def _candidates(name: bytes, search_path: bytes) -> list[bytes]:
    if b"/" in name:
        return [name]
    return [directory + b"/" + name for directory in search_path.split(b":") if directory]
