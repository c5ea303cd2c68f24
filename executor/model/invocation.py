"""What a caller asks for."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """The authenticated caller."""

    name: str
    tenant: str


LOCAL = Principal(name="local", tenant="local")
"""Who calls over the Unix socket, or in process: the operator's own user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    path: str
    """Relative to /workspace, `/`-separated."""
    content: bytes
    executable: bool = False
    internal: bool = False
    """Part of the tool's own command; never an artifact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """One request to run one tool once."""

    invocation_id: str
    """Ours, unique."""
    tool: str
    arguments_json: str
    """Exactly as the model wrote it."""
    principal: Principal = LOCAL
    version: str | None = None
    call_id: str | None = None
    """The caller's."""
    trace_id: str | None = None
    """32 hex digits (W3C)."""
    files: tuple[InputFile, ...] = ()
    collect: tuple[str, ...] = ()
    """Globs relative to /workspace; `**` crosses directories."""
    limits: Mapping[str, float] = field(default_factory=dict)
    """Names of `Limits`; may only lower the tool's."""
    deadline: float | None = None
    """On `time.monotonic`, in seconds; None where the caller set none."""
    arrived: float | None = None
    """On `time.monotonic`, in seconds: when its bytes reached the service; None where it came no such way."""
