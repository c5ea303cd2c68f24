"""What a sandbox is asked to run, and how that ended. Spoken by sandbox and result; knows nothing of tools."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from executor.model.invocation import InputFile
from executor.model.limits import Limits
from executor.model.tool import OutputExcess


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSpec:
    """What must be known to make a sandbox."""

    image: str
    limits: Limits
    network: str = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """The one command of a sandbox. Working directory is /workspace."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    """Added to the backend's fixed base (PATH, HOME, LANG, TMPDIR, ...)."""
    stdin: bytes = b""
    files: tuple[InputFile, ...] = ()
    """Written below /workspace before the command starts; parents are made."""
    wall_seconds: float
    """What is left until the deadline; at most `limits.wall_seconds`."""
    on_output_excess: OutputExcess = OutputExcess.KILL


class StreamName(StrEnum):
    STDOUT = "stdout"
    STDERR = "stderr"


class End(StrEnum):
    """How the main process ended; exactly one."""

    EXITED = "EXITED"
    SIGNALED = "SIGNALED"
    NOT_FOUND = "NOT_FOUND"
    """The command does not exist in the image."""
    NOT_EXECUTABLE = "NOT_EXECUTABLE"
    """It exists, and the kernel refused to execute it."""
    KILLED = "KILLED"
    """By us: see `stop`."""


class Stop(StrEnum):
    """Why we killed the tree before its main process ended by itself."""

    WALL = "WALL"
    CPU = "CPU"
    MEMORY = "MEMORY"
    OUTPUT = "OUTPUT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    queue_ms: float = 0.0
    """Waited for capacity."""
    setup_ms: float = 0.0
    """Making the sandbox and handing the command over."""
    wall_ms: float = 0.0
    """From the hand-over of the command to the end of its main process."""
    teardown_ms: float = 0.0
    """From there to the proof that the tree is dead."""
    cpu_ms: float | None = None
    """Of the tree; None where this host cannot tell."""
    peak_memory_bytes: int | None = None
    peak_processes: int | None = None
    admission_ms: float | None = None
    """From the arrival of the request to the request for a sandbox, without `queue_ms`; None where there was none."""
    result_ms: float | None = None
    """From the dead tree to the outcome; None where nothing ran."""
    total_ms: float | None = None
    """From the arrival of the request to the outcome."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """The facts of one run, as the kernel told them. The tree is dead when this exists."""

    end: End
    exit_code: int | None = None
    """With EXITED."""
    signal: int | None = None
    """With SIGNALED."""
    stop: Stop | None = None
    """With KILLED."""
    detail: str = ""
    """With NOT_FOUND and NOT_EXECUTABLE: the kernel's reason."""
    usage: Usage = field(default_factory=Usage)
    oom_kills: int = 0
    """Processes that the kernel killed for the memory limit."""
    pids_refused: int = 0
    """Times that the kernel refused a new process for the process limit."""
    disk_full: tuple[str, ...] = ()
    """Mount points that were full: of /workspace, /tmp, /dev/shm."""
    output_dropped: Mapping[StreamName, int] = field(default_factory=dict)
    """Bytes of each stream that were read and dropped beyond `limits.output_bytes`."""

    @property
    def output_dropped_bytes(self) -> int:
        return sum(self.output_dropped.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectedFile:
    path: str
    """Relative to /workspace; bytes that are not UTF-8 as `\\xNN`, control characters escaped."""
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedFile:
    path: str
    reason: str
    """Such as `symbolic link`, `not a regular file`, `larger than what is left of artifact_bytes`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    files: tuple[CollectedFile, ...] = ()
    refused: tuple[RefusedFile, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """A stream as far as it was kept in memory: its beginning, its end, and how long it was."""

    head: bytes
    tail: bytes
    """What follows `head` with nothing between, where `complete`; otherwise the last bytes of the stream."""
    total_bytes: int

    @property
    def complete(self) -> bool:
        return len(self.head) + len(self.tail) == self.total_bytes
