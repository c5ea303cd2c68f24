"""What a catalogue holds: tools, as frozen values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from executor.model.limits import Limits


class Effect(StrEnum):
    """What a tool may do to the world outside its sandbox; enforced by the policy."""

    READ_ONLY = "read_only"
    MUTATING = "mutating"
    DESTRUCTIVE = "destructive"


class OutputExcess(StrEnum):
    """What happens to a program that writes more than `limits.output_bytes`."""

    KILL = "kill"
    """The tree is killed and the outcome fails as OUTPUT_LIMIT."""
    CUT = "cut"
    """What comes after the limit is read and dropped; the program runs on, and `truncated` says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """How arguments become a process. A `{{name}}` is replaced by exactly one literal value."""

    argv: tuple[str, ...]
    """Templates; each item becomes exactly one argument, or none where an optional parameter in it is absent."""
    stdin: str | None = None
    """Template of what the program reads on standard input."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Path below /workspace -> template of its content. Never collected as artifacts."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Literal; never templated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    arguments: Mapping[str, Any]
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredExit:
    """An exit code that the tool uses to say no; becomes REJECTED/DECLARED."""

    message: str
    suggestion: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What a tool version may use. Part of its digest."""

    image: str
    limits: Limits
    network: str = "none"
    on_output_excess: OutputExcess = OutputExcess.KILL


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One version of one tool."""

    name: str
    """`^[A-Za-z_][A-Za-z0-9_-]{0,63}$`"""
    version: str
    """Semantic version."""
    description: str
    parameters: Mapping[str, Any]
    """JSON Schema 2020-12 of the arguments object."""
    effect: Effect
    policy: Policy
    command: Command | None
    """None for a tool that the service answers itself (`internal`)."""
    internal: str | None = None
    """Name of the service's own function that answers, such as `read_output`."""
    examples: tuple[Example, ...] = ()
    exit_codes: Mapping[int, DeclaredExit] = field(default_factory=dict)
    concurrency: int = 16
    """Invocations of this tool at one time."""
    idempotent: bool = False
    """The author declares that running it twice does what running it once does."""
    digest: str = ""
    """`sha256:<hex>` of the canonical manifest."""

    @property
    def harmless_to_repeat(self) -> bool:
        return self.effect is Effect.READ_ONLY or self.idempotent
