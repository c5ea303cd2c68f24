"""The world inside a fake sandbox: files in a dict, processes as asyncio tasks. `fake.py` opens and closes it, the
programs of `fake_programs.py` live in it.

Not a kernel: a process has no pid and no descriptors, and a CPU or memory limit is reached only by the program that
says so. What a caller of the contract can see (streams, ends, limits of output, wall time and disk) is real.
"""

import asyncio
import posixpath
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from executor.model.limits import Limits
from executor.model.run import End, Process, RunReport, Stop, StreamName
from executor.sandbox.bounded import OutputMeter
from executor.sandbox.contract import OnOutput

WORKSPACE = "/workspace"
WRITABLE = (WORKSPACE, "/tmp", "/dev/shm")  # noqa: S108 - mount points of the sandbox
BASE_ENVIRONMENT: Mapping[str, str] = {"PATH": "/usr/bin:/bin", "HOME": WORKSPACE, "LANG": "C.UTF-8", "TMPDIR": "/tmp"}  # noqa: S108
TOO_LARGE = ("File too large", "No space left on device")
"""Reasons of Refused that a smaller file would not have met."""
PIECE_BYTES = 64 * 1024
DROPPING_SECONDS = 0.001
"""Pause of a writer whose output is only dropped, so that it does not occupy the loop."""


class Kind(StrEnum):
    FILE = "regular file"
    LINK = "symbolic link"
    FIFO = "named pipe"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    kind: Kind = Kind.FILE
    content: bytes = b""
    executable: bool = False


class Refused(Exception):
    """The fake kernel says no; `str()` is its reason, as strerror would word it."""


@dataclass(slots=True, kw_only=True)
class Disk:
    """Every path is absolute and normal."""

    limits: Limits
    entries: dict[str, Entry] = field(default_factory=lambda: {"/etc/passwd": Entry(content=b"root:x:0:0::/:\n")})
    full: set[str] = field(default_factory=set)
    """Mount points on which a write failed for want of space."""

    def read(self, path: str) -> bytes:
        if (entry := self.entries.get(absolute(path))) is None:
            raise Refused("No such file or directory")
        return entry.content

    def put(self, path: str, entry: Entry) -> None:
        """Raises Refused where the image is read-only, the file too large or its mount point full."""
        path = absolute(path)
        mount = next((mount for mount in WRITABLE if path.startswith(mount + "/")), None)
        if mount is None:
            raise Refused("Read-only file system")
        if len(entry.content) > self.limits.file_bytes:
            raise Refused("File too large")
        self._claim_space(mount, path, entry)
        self.entries[path] = entry

    def below(self, directory: str) -> dict[str, Entry]:
        """Relative path -> entry."""
        prefix = absolute(directory).rstrip("/") + "/"
        return {path.removeprefix(prefix): entry for path, entry in self.entries.items() if path.startswith(prefix)}

    def _claim_space(self, mount: str, path: str, entry: Entry) -> None:
        others = [other for name, other in self.below(mount).items() if f"{mount}/{name}" != path]
        in_workspace = mount == WORKSPACE
        space = self.limits.workspace_bytes if in_workspace else self.limits.tmp_bytes
        inodes = self.limits.workspace_inodes if in_workspace else self.limits.tmp_inodes
        if sum(len(other.content) for other in others) + len(entry.content) > space or len(others) >= inodes:
            self.full.add(mount)
            raise Refused("No space left on device")


def absolute(path: str) -> str:
    return posixpath.normpath(posixpath.join(WORKSPACE, path))


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One process: what a program is given."""

    machine: "Machine"
    argv: tuple[str, ...]
    stdin: bytes = b""

    async def out(self, data: bytes) -> None:
        await self.machine.write(StreamName.STDOUT, data)

    async def err(self, data: bytes) -> None:
        await self.machine.write(StreamName.STDERR, data)


Program = Callable[[Call], Awaitable[RunReport]]
"""Plays one program. Ends by returning how it ended; must let CancelledError (its SIGKILL) through."""


class Machine:
    """One run: its process tree, its meter, its disk."""

    def __init__(self, process: Process, limits: Limits, disk: Disk, on_output: OnOutput, start: Program) -> None:
        self.limits, self.disk = limits, disk
        self.environment = {**BASE_ENVIRONMENT, **process.environment}
        self.meter = OutputMeter(limits.output_bytes, process.on_output_excess)
        self._on_output, self._start = on_output, start
        self._tree: set[asyncio.Future[RunReport]] = set()
        self._stopped: asyncio.Future[RunReport] = asyncio.get_running_loop().create_future()

    async def call(self, call: Call) -> RunReport:
        """Play another program in the same process, as exec would."""
        return await self._start(call)

    def spawn(self, argv: tuple[str, ...], stdin: bytes = b"") -> asyncio.Future[RunReport]:
        """A process of the tree; it dies with the tree at the latest."""
        task = asyncio.ensure_future(self._start(Call(machine=self, argv=argv, stdin=stdin)))
        self._tree.add(task)
        task.add_done_callback(self._abort_if_broken)
        return task

    def stop(self, stop: Stop, *, oom_kills: int = 0) -> None:
        if not self._stopped.done():
            self._stopped.set_result(RunReport(end=End.KILLED, stop=stop, oom_kills=oom_kills))

    def abort(self, error: BaseException) -> None:
        """End the run by an error of the executor itself."""
        if not self._stopped.done():
            self._stopped.set_exception(error)

    async def write(self, stream: StreamName, data: bytes) -> None:
        for start in range(0, len(data), PIECE_BYTES):
            if kept := self.meter.admit(stream, data[start : start + PIECE_BYTES]):
                self._on_output(stream, kept)
            if self.meter.must_kill:
                self.stop(Stop.OUTPUT)
                await self.killed()
            await asyncio.sleep(DROPPING_SECONDS if self.meter.exceeded else 0)

    async def killed(self) -> None:
        """Never returns: the tree is about to be killed."""
        await asyncio.get_running_loop().create_future()

    async def finish(self, main: asyncio.Future[RunReport], wall_seconds: float) -> RunReport:
        """Wait for the main process, a stop or the wall limit, then kill the tree, also when cancelled."""
        ends = {main, self._stopped}
        try:
            await asyncio.wait(ends, timeout=wall_seconds, return_when=asyncio.FIRST_COMPLETED)
            self.stop(Stop.WALL)
            return self._stopped.result() if not main.done() else main.result()
        finally:
            await self._kill_tree()
            if not self._stopped.cancel() and not self._stopped.cancelled():
                self._stopped.exception()  # seen, also where the main process ended at the same moment

    def _abort_if_broken(self, task: asyncio.Future[RunReport]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.abort(error)

    async def _kill_tree(self) -> None:
        while living := {task for task in self._tree if not task.done()}:
            for task in living:
                task.cancel()
            await asyncio.wait(living)
