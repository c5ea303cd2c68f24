"""What the lint says about a manifest, with the place it says it of."""

from dataclasses import dataclass
from enum import StrEnum

Path = tuple[str | int, ...]
"""Keys and indexes from the root of a document to a value."""


class Severity(StrEnum):
    ERROR = "error"
    """The service does not start with it."""
    WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    file: str
    line: int
    """The first is 1."""
    column: int
    """In characters; the first is 1."""
    severity: Severity
    rule: str
    """Stable, in kebab-case."""
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.severity}: {self.message} [{self.rule}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A diagnostic whose place is still a path; rules are pure and know no lines."""

    path: Path
    rule: str
    message: str
    severity: Severity = Severity.ERROR
    at_key: bool = False
    """The key of the value is wrong, not the value."""


def errors(diagnostics: tuple[Diagnostic, ...]) -> tuple[Diagnostic, ...]:
    return tuple(d for d in diagnostics if d.severity is Severity.ERROR)


def warnings(diagnostics: tuple[Diagnostic, ...]) -> tuple[Diagnostic, ...]:
    return tuple(d for d in diagnostics if d.severity is Severity.WARNING)
