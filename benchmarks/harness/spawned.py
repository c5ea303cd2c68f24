"""Peers that are a command in front of the command: posix_spawn with nothing, unshare, bwrap.

Each is started the same way, without a fork of this process, with the same environment; its output is read and
compared.
"""

import asyncio
import contextlib
import errno
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from executor.sandbox.native.images import host_image
from executor.sandbox.native.init import BASE_ENVIRONMENT

from .lines import BWRAP, SPAWN, UNSHARE, Absence
from .peer import CallFailed, Party
from .rows import Row

SEARCH_PATH = host_image().environment["PATH"]
"""That of our own sandboxes, so that the same programs are found."""
ENVIRONMENT = {**BASE_ENVIRONMENT, "PATH": SEARCH_PATH, "HOME": "/"}
_PIECE_BYTES = 65536
_SHOWN_BYTES = 200

PREFIXES = {
    SPAWN: (),
    UNSHARE: (
        *("unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child"),
        *("--net", "--ipc", "--uts", "--cgroup", "--"),
    ),
    BWRAP: (
        *("bwrap", "--unshare-all", "--die-with-parent", "--new-session"),
        *("--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--"),  # noqa: S108 - its own
    ),
}
"""Seven namespaces each but for the first, and no limits, no seccomp."""


@dataclass(frozen=True, slots=True)
class Spawned:
    name: str
    prefix: tuple[str, ...]
    every: int = 1
    most_in_flight: int = 1024
    processes: frozenset[int] = frozenset()

    def refuses(self, row: Row) -> str | None:
        return None if row.argv else "it has no way to be given files and to give some back"

    async def call(self, row: Row) -> Mapping[str, float]:
        status, output = await run([*self.prefix, *row.argv])
        if status or output != row.stdout:
            raise CallFailed(f"exit status {status}, output {output[:_SHOWN_BYTES]!r}")
        return {}


async def join(party: Party) -> None:
    """Those that are installed and can run here."""
    for name, prefix in PREFIXES.items():
        if prefix and not shutil.which(prefix[0], path=SEARCH_PATH):
            party.absences.append(Absence(peer=name, row=None, reason=f"{prefix[0]} is not installed"))
            continue
        status, output = await run([*prefix, "true"])
        if status:
            said = output.decode(errors="replace").strip()
            party.absences.append(Absence(peer=name, row=None, reason=f"it does not work here: {said}"))
        else:
            party.peers.append(Spawned(name, prefix))


async def run(argv: Sequence[str]) -> tuple[int, bytes]:
    """Exit status (negative: the signal), and what it wrote to stdout and stderr. Kills it where we are cancelled.

    Raises CallFailed where it does not start.
    """
    reading, writing = os.pipe()
    try:
        pidfd = _start(argv, writing)
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


def _start(argv: Sequence[str], output: int) -> int:
    """Gives its pidfd."""
    program = shutil.which(argv[0], path=SEARCH_PATH)
    if program is None:
        raise FileNotFoundError(errno.ENOENT, "it is not installed", argv[0])
    pid = os.posix_spawn(
        program,
        argv,
        ENVIRONMENT,
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
    loop.add_reader(fd, lambda: ready.done() or ready.set_result(None))
    try:
        await ready
    finally:
        loop.remove_reader(fd)
