"""What a caller hears of its invocation while it goes on. The wire form is ExecuteStreamResponse."""

from dataclasses import dataclass

from executor.model.outcome import Outcome
from executor.model.run import StreamName


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The service has taken the call."""

    sequence: int
    """Grows by one from event to event, from 1."""
    invocation_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The sandbox runs."""

    sequence: int
    tool_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """The program wrote something. Raw bytes: not neutralised, not for a terminal as they are."""

    sequence: int
    source: StreamName
    offset: int
    """Of the first byte in its stream."""
    data: bytes
    skipped_bytes: int = 0
    """Left out of this stream just before, because the reader was too slow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """Nothing happened for a while; the invocation is alive."""

    sequence: int
    elapsed_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The last event."""

    sequence: int
    outcome: Outcome


Event = Accepted | Started | Output | Heartbeat | Ended
