"""How a command is run for a peer: without a fork of this process, with a given environment, its output read."""

import asyncio
import contextlib
import errno
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from executor.bench.peer import NO_FILES, CallFailed, compared
from executor.bench.roots import Root
from executor.bench.rows import Row

_PIECE_BYTES = 65536

Command = Callable[[Root, Sequence[str]], Sequence[str]]
"""From a command of a root to the one that runs it there; each begins with an absolute path."""


@dataclass(frozen=True, slots=True)
class Spawned:
    """A peer that is a command in front of the command."""

    name: str
    command: Command
    roots: Mapping[str, Root]
    every: int = 1
    most_in_flight: int = 1024
    processes: frozenset[int] = field(default_factory=frozenset)

    def refuses(self, row: Row) -> str | None:
        if not row.argv:
            return NO_FILES
        return None if row.image in self.roots else f"it was not tried with the image {row.image!r}"

    async def call(self, row: Row) -> Mapping[str, float]:
        root = self.roots[row.image]
        compared(row, *await run(self.command(root, inside(root, row.argv)), root.environment))
        return {}


def inside(root: Root, argv: Sequence[str]) -> list[str]:
    """The command with the absolute path of its program. Raises CallFailed."""
    program = root.program(argv[0])
    if program is None:
        raise CallFailed(f"{argv[0]} is not installed in {root.path}")
    return [program, *argv[1:]]


async def run(argv: Sequence[str], environment: Mapping[str, str]) -> tuple[int, bytes]:
    """Exit status (negative: the signal), and what it wrote to stdout and stderr. Kills it where we are cancelled.

    Raises CallFailed where it does not start.
    """
    reading, writing = os.pipe()
    try:
        pidfd = _start(argv, environment, writing)
    except OSError as error:
        os.close(reading)
        raise CallFailed(f"{argv[0]} could not be started: {error.strerror}") from error
    finally:
        os.close(writing)
    try:
        output = await _read_to_end(reading)
        await _readable(pidfd)
    finally:
        status = _end(pidfd)
        os.close(reading)
    return status, output


def _start(argv: Sequence[str], environment: Mapping[str, str], output: int) -> int:
    """Gives its pidfd."""
    pid = os.posix_spawn(
        argv[0],
        list(argv),
        environment,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, output, 1),
            (os.POSIX_SPAWN_DUP2, output, 2),
        ],
    )
    return os.pidfd_open(pid)


def _end(pidfd: int) -> int:
    """Kills what still runs; a process that has ended keeps its status."""
    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    ended = os.waitid(os.P_PIDFD, pidfd, os.WEXITED)
    os.close(pidfd)
    if ended is None:
        raise ChildProcessError(errno.ECHILD, "the kernel knows no such child")
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


async def _read_to_end(fd: int) -> bytes:
    os.set_blocking(fd, False)
    output = bytearray()
    while True:
        await _readable(fd)
        with contextlib.suppress(BlockingIOError):
            piece = os.read(fd, _PIECE_BYTES)
            if not piece:
                return bytes(output)
            output += piece


async def _readable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def tell() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(fd, tell)
    try:
        await ready
    finally:
        loop.remove_reader(fd)
