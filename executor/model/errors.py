"""The error tree, and the one table from code to class. Every stage raises only what stands here.

ExecutorError
├── InvocationError        what happened to one tool call; becomes `Outcome.error`
├── InvocationCancelled    the caller took its call back; becomes an outcome with state CANCELLED
└── ServiceError           the service's own trouble; becomes a gRPC status, exit status 3 of the CLI
    ├── Unavailable        not reachable, draining, or this host cannot run what was asked for
    ├── NotFound           an id or ref that does not exist, or is not the caller's
    ├── BadRequest         a message that is malformed as a whole, before any tool is looked at
    └── Misconfigured      a setting, catalogue or image that the operator must mend
"""

from dataclasses import dataclass
from enum import StrEnum


class ErrorClass(StrEnum):
    """Four kinds of failure, each with its own next step for the caller."""

    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    """Give the violations to the model; never retry as it is."""
    REJECTED = "REJECTED"
    """A normal answer: tell the user."""
    TRANSIENT = "TRANSIENT"
    """Bounded retry, only where `retryable`."""
    ENVIRONMENT = "ENVIRONMENT"
    """End this tool call, tell the user."""


class ErrorCode(StrEnum):
    UNKNOWN_TOOL = "UNKNOWN_TOOL"
    UNKNOWN_VERSION = "UNKNOWN_VERSION"
    INVALID_JSON = "INVALID_JSON"
    SCHEMA_VIOLATION = "SCHEMA_VIOLATION"
    PAYLOAD_TOO_LARGE = "PAYLOAD_TOO_LARGE"
    KEY_REUSED = "KEY_REUSED"

    PERMISSION_DENIED = "PERMISSION_DENIED"
    APPROVAL_REFUSED = "APPROVAL_REFUSED"
    APPROVAL_EXPIRED = "APPROVAL_EXPIRED"
    TOOL_FROZEN = "TOOL_FROZEN"
    DECLARED = "DECLARED"

    TIMEOUT = "TIMEOUT"
    OVERLOADED = "OVERLOADED"
    CIRCUIT_OPEN = "CIRCUIT_OPEN"
    UPSTREAM_UNAVAILABLE = "UPSTREAM_UNAVAILABLE"

    MEMORY_LIMIT = "MEMORY_LIMIT"
    CPU_LIMIT = "CPU_LIMIT"
    PIDS_LIMIT = "PIDS_LIMIT"
    DISK_LIMIT = "DISK_LIMIT"
    OUTPUT_LIMIT = "OUTPUT_LIMIT"
    CRASHED = "CRASHED"
    EGRESS_DENIED = "EGRESS_DENIED"
    SANDBOX_UNAVAILABLE = "SANDBOX_UNAVAILABLE"
    OUTCOME_UNKNOWN = "OUTCOME_UNKNOWN"


_CODES = {
    ErrorClass.INVALID_ARGUMENT: (
        ErrorCode.UNKNOWN_TOOL,
        ErrorCode.UNKNOWN_VERSION,
        ErrorCode.INVALID_JSON,
        ErrorCode.SCHEMA_VIOLATION,
        ErrorCode.PAYLOAD_TOO_LARGE,
        ErrorCode.KEY_REUSED,
    ),
    ErrorClass.REJECTED: (
        ErrorCode.PERMISSION_DENIED,
        ErrorCode.APPROVAL_REFUSED,
        ErrorCode.APPROVAL_EXPIRED,
        ErrorCode.TOOL_FROZEN,
        ErrorCode.DECLARED,
    ),
    ErrorClass.TRANSIENT: (
        ErrorCode.TIMEOUT,
        ErrorCode.OVERLOADED,
        ErrorCode.CIRCUIT_OPEN,
        ErrorCode.UPSTREAM_UNAVAILABLE,
    ),
    ErrorClass.ENVIRONMENT: (
        ErrorCode.MEMORY_LIMIT,
        ErrorCode.CPU_LIMIT,
        ErrorCode.PIDS_LIMIT,
        ErrorCode.DISK_LIMIT,
        ErrorCode.OUTPUT_LIMIT,
        ErrorCode.CRASHED,
        ErrorCode.EGRESS_DENIED,
        ErrorCode.SANDBOX_UNAVAILABLE,
        ErrorCode.OUTCOME_UNKNOWN,
    ),
}

CLASS_OF: dict[ErrorCode, ErrorClass] = {code: cls for cls, codes in _CODES.items() for code in codes}
"""Complete: every ErrorCode has exactly one class."""


class EffectState(StrEnum):
    """What the call may have done to the world outside its sandbox."""

    NONE = "NONE"
    POSSIBLE = "POSSIBLE"
    DONE = "DONE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One thing wrong with the arguments, so that a model mends it in one turn."""

    pointer: str
    """JSON Pointer (RFC 6901) to the value; `""` is the whole document."""
    keyword: str
    """The JSON Schema keyword, or what no schema says: `syntax`, `duplicateKey`, `nonFinite`, `trailing`, `depth`,
    `size`, `range`, `path`, `nul`, `surrogate`; `more` counts those that were left out."""
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorDetail:
    """The `error` of an outcome."""

    code: ErrorCode
    message: str
    """One sentence: what was wrong and where."""
    retryable: bool = False
    """True only where a second run can do no harm."""
    retry_after_ms: int | None = None
    effect: EffectState = EffectState.NONE
    violations: tuple[Violation, ...] = ()
    suggestion: str | None = None
    """What to do next, in words that a model can act on."""

    @property
    def error_class(self) -> ErrorClass:
        """Named `class` on the wire and in JSON."""
        return CLASS_OF[self.code]


class ExecutorError(Exception):
    """Everything that this package raises on purpose."""


@dataclass(eq=False)
class InvocationError(ExecutorError):
    """One tool call cannot be done, or failed; the pipeline turns it into an outcome with state FAILED."""

    detail: ErrorDetail

    def __str__(self) -> str:
        return f"{self.detail.code}: {self.detail.message}"


class InvocationCancelled(ExecutorError):
    """The caller took its call back before it ended."""


class ServiceError(ExecutorError):
    """The service's own trouble; never says anything about a tool."""


class Unavailable(ServiceError):
    """Not reachable, draining, or this host cannot run what was asked for."""


class NotFound(ServiceError):
    """No such id or ref, or not the caller's: the two look the same."""


class BadRequest(ServiceError):
    """The request as a whole is malformed, before any tool is looked at."""


class Misconfigured(ServiceError):
    """A setting, catalogue or image that the operator must mend."""
