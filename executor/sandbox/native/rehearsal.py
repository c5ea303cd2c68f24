"""Which pages of a template a program writes to before it has done anything of its own, found out by running one.

A fork has its pages in common with the template until it writes to them; then each costs a page fault and a copy, in
the middle of a call. A sandbox that is made ahead can copy those that every program needs while nobody waits. Runs in
the template; builtin modules and ctypes only.
"""

import ctypes
import os
import select

from executor.sandbox.native import ending

TYPE_CHECKING = False  # `typing` would cost each sandbox memory
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Ranges = tuple[tuple[int, int], ...]
"""(address, length in bytes)"""

SCRIPT = "print(1)\n"
SECONDS = 10.0
_PAGE = os.sysconf("SC_PAGE_SIZE")
_ENTRY_BYTES = 8
_PRESENT, _OF_A_FILE, _ONLY_OURS = 1 << 63, 1 << 61, 1 << 56
"""Of an entry of /proc/self/pagemap."""
_END = -1
MOST_BYTES = 3 << 20
_POPULATE_WRITE = 23
_madvise = ctypes.PyDLL(None).madvise
_madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


def rehearse(script: str) -> Ranges | None:
    """In the template, in the working directory of its programs. None in the copy of it that is to become the program
    `script`: that one returns to CPython. Nothing is known, and nothing lost, where the trial comes to another end.
    """
    fd = os.open(script, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    os.write(fd, SCRIPT.encode())
    os.close(fd)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        ending.watch(lambda: _tell(write), lambda: _tell(write))
        return None
    os.close(write)
    known = _writable()
    told = _hear(read)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return _chosen([page for page in told if page < 0 or any(start <= page < end for start, end in known)])


def _chosen(told: list[int]) -> Ranges:
    """Of what was written to up to the end of the program and, after _END, up to the end of the process: all, where
    that is not too much for something that only waits.
    """
    before = told[: told.index(_END)] if _END in told else told
    whole = tuple(_joined({*told} - {_END}))
    return whole if sum(length for _, length in whole) <= MOST_BYTES else tuple(_joined(before))


def populate(ranges: Ranges) -> None:
    """In a copy of the template: have these pages for itself. Does nothing on a kernel before 5.14."""
    for address, length in ranges:
        _madvise(address, length, _POPULATE_WRITE)


def _tell(write: int) -> None:
    """In the trial. The pages that it has for itself, then _END."""
    pagemap = os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)
    for start, end in _writable():
        entries = os.pread(pagemap, (end - start) * _ENTRY_BYTES, start * _ENTRY_BYTES)
        for index in range(len(entries) // _ENTRY_BYTES):
            entry = int.from_bytes(entries[index * _ENTRY_BYTES : (index + 1) * _ENTRY_BYTES], "little")
            if entry & _PRESENT and entry & _ONLY_OURS and not entry & _OF_A_FILE:
                os.write(write, _packed(start + index))
    os.close(pagemap)
    os.write(write, _packed(_END))


def _packed(page: int) -> bytes:
    return page.to_bytes(_ENTRY_BYTES, "little", signed=True)


def _hear(read: int) -> list[int]:
    told = b""
    while select.select([read], [], [], SECONDS)[0] and (piece := os.read(read, 65536)):
        told += piece
    os.close(read)
    return [
        int.from_bytes(told[i : i + _ENTRY_BYTES], "little", signed=True) for i in range(0, len(told), _ENTRY_BYTES)
    ]


def _writable() -> list[tuple[int, int]]:
    """First page and page after the last of each private writable mapping."""
    maps = os.open("/proc/self/maps", os.O_RDONLY | os.O_CLOEXEC)  # `open` is gone when CPython ends
    text = b""
    while piece := os.read(maps, 65536):
        text += piece
    os.close(maps)
    found = []
    for line in text.splitlines():
        addresses, mode = line.split()[:2]
        if mode[1:2] == b"w" and mode[3:4] == b"p":
            start, _, end = addresses.partition(b"-")
            found.append((int(start, 16) // _PAGE, int(end, 16) // _PAGE))
    return found


def _joined(pages: "Iterable[int]") -> "Iterator[tuple[int, int]]":
    start = end = -1
    for page in sorted(pages):
        if start >= 0 and page == end:
            end = page + 1
            continue
        if start >= 0:
            yield start * _PAGE, (end - start) * _PAGE
        start, end = page, page + 1
    if start >= 0:
        yield start * _PAGE, (end - start) * _PAGE
