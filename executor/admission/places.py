"""Who may run, who waits, who is sent away: the decisions of capacity. Pure: no clock, no tasks, no I/O.

A call is known by its ticket. Calls are served in the order they came; one whose tool is at its own limit does not hold
up a later call of another tool, and nobody overtakes a call of the same tool.
"""

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum


class Answer(StrEnum):
    ADMITTED = "ADMITTED"
    QUEUED = "QUEUED"
    FULL = "FULL"
    """Neither a slot nor room in the queue; the ticket is forgotten."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    tool: str
    concurrency: int


class Places:
    """At most `slots` tickets are admitted at one time, at most `queue_length` wait."""

    def __init__(self, *, slots: int, queue_length: int) -> None:
        if slots < 1 or queue_length < 0:
            raise ValueError(f"slots must be 1 or more and queue_length 0 or more, not {slots} and {queue_length}")
        self._slots, self._queue_length = slots, queue_length
        self._admitted: dict[int, str] = {}
        self._running: Counter[str] = Counter()
        self._queue: dict[int, _Waiting] = {}

    @property
    def admitted_count(self) -> int:
        return len(self._admitted)

    @property
    def queued_count(self) -> int:
        return len(self._queue)

    def ask(self, ticket: int, tool: str, concurrency: int) -> Answer:
        """A ticket asks once. `concurrency` is how many calls of `tool` may run at one time."""
        waiting = _Waiting(tool, max(1, concurrency))
        if self._fits(waiting) and not any(other.tool == tool for other in self._queue.values()):
            self._admit(ticket, tool)
            return Answer.ADMITTED
        if len(self._queue) >= self._queue_length:
            return Answer.FULL
        self._queue[ticket] = waiting
        return Answer.QUEUED

    def leave(self, ticket: int) -> tuple[int, ...]:
        """The ticket has ended or given up. Gives the tickets that are admitted in its place, in order."""
        self._queue.pop(ticket, None)
        if (tool := self._admitted.pop(ticket, None)) is not None:
            self._running[tool] -= 1
        return tuple(self._promote())

    def _promote(self) -> list[int]:
        promoted = []
        for ticket, waiting in tuple(self._queue.items()):
            if len(self._admitted) >= self._slots:
                break
            if self._fits(waiting):
                del self._queue[ticket]
                self._admit(ticket, waiting.tool)
                promoted.append(ticket)
        return promoted

    def _fits(self, waiting: _Waiting) -> bool:
        return len(self._admitted) < self._slots and self._running[waiting.tool] < waiting.concurrency

    def _admit(self, ticket: int, tool: str) -> None:
        self._admitted[ticket] = tool
        self._running[tool] += 1


def retry_after_ms(*, ahead: int, slots: int, held_ms: float) -> int:
    """When it is worth asking again: `ahead` calls must end first, each holding a slot for about `held_ms`."""
    return int(min(60_000, max(100, held_ms * (ahead + 1) / slots)))
