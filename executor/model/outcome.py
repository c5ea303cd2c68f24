"""What an invocation came to. The wire and JSON forms have the same fields (see proto/executor/v1)."""

from dataclasses import dataclass, field
from enum import StrEnum

from executor.model.errors import ErrorDetail
from executor.model.limits import Limits
from executor.model.run import Collection, RefusedFile, RunReport, Usage


class State(StrEnum):
    COMPLETED = "COMPLETED"
    """The program ran to its own end, whatever its exit code."""
    FAILED = "FAILED"
    """See `error`."""
    PENDING_APPROVAL = "PENDING_APPROVAL"
    CANCELLED = "CANCELLED"
    RUNNING = "RUNNING"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """One output stream, made safe to show to a model. It is data, whatever it says."""

    text: str = ""
    total_bytes: int = 0
    """As the program wrote them."""
    truncated: bool = False
    """The text is not all of it."""
    lossy: bool = False
    """The bytes were not valid UTF-8; the text has replacement characters."""
    ref: str | None = None
    """To the full bytes, where the text does not say it all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    path: str
    size_bytes: int
    sha256: str
    media_type: str
    ref: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolation:
    """The isolation really in force."""

    backend: str
    image: str
    image_digest: str
    network: str
    limits: Limits
    degraded: tuple[str, ...] = ()
    """What this host could not enforce and the operator allowed by name, one sentence each."""
    prepared: str = "on_demand"
    """How the sandbox was made: `on_demand` or `pooled`, with `+template:NAME` where an interpreter was forked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What the sandbox stage gives back."""

    isolation: Isolation
    report: RunReport | None
    """None where the call was cancelled."""
    usage: Usage = field(default_factory=Usage)
    """As far as it is known; the report's where there is one."""
    asked: float
    """On `time.monotonic`, in seconds: when a sandbox was asked for."""
    dead: float
    """On `time.monotonic`, in seconds: when its process tree was known to be dead."""
    collection: Collection = field(default_factory=Collection)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    invocation_id: str
    state: State
    tool: str
    call_id: str | None = None
    trace_id: str | None = None
    tool_version: str | None = None
    """None where no tool was found."""
    tool_digest: str | None = None
    exit_code: int | None = None
    stdout: Stream = field(default_factory=Stream)
    stderr: Stream = field(default_factory=Stream)
    artifacts: tuple[Artifact, ...] = ()
    artifacts_refused: tuple[RefusedFile, ...] = ()
    """What matched a glob and was not collected, and why."""
    error: ErrorDetail | None = None
    usage: Usage = field(default_factory=Usage)
    isolation: Isolation | None = None
    """None where no sandbox was made."""
    replayed: bool = False
    arguments_echo: str | None = None
    """The arguments as received, with INVALID_ARGUMENT, so that a model can mend its call in one turn."""
