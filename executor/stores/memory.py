"""A ledger that lives as long as its process. Promises nothing about a restart, so nothing may be replayed from it."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from executor.model.invocation import Invocation
from executor.model.outcome import Outcome
from executor.model.tool import Tool

KEPT_COUNT = 256


class Step(StrEnum):
    ATTEMPTED = "ATTEMPTED"
    INTENDED = "INTENDED"
    CONCLUDED = "CONCLUDED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What is known of one invocation. Neither its arguments nor its files: they have no bound."""

    invocation_id: str
    principal: str
    tool: str
    step: Step
    tool_version: str | None = None
    """From INTENDED on."""
    outcome: Outcome | None = None
    """With CONCLUDED."""


class MemoryLedger:
    """Knows the invocations that took their last step most recently, and forgets the rest."""

    def __init__(self, *, kept_count: int = KEPT_COUNT) -> None:
        self._kept_count = kept_count
        self._entries: OrderedDict[str, Entry] = OrderedDict()

    async def attempt(self, invocation: Invocation) -> None:
        self._put(_entry(invocation, Step.ATTEMPTED))

    async def intend(self, invocation: Invocation, tool: Tool) -> None:
        self._put(_entry(invocation, Step.INTENDED, tool.version))

    async def conclude(self, invocation: Invocation, outcome: Outcome) -> None:
        kept = outcome if outcome.arguments_echo is None else replace(outcome, arguments_echo=None)
        self._put(_entry(invocation, Step.CONCLUDED, outcome.tool_version, kept))

    def entries(self) -> Sequence[Entry]:
        """The most recent step last."""
        return tuple(self._entries.values())

    def _put(self, entry: Entry) -> None:
        self._entries[entry.invocation_id] = entry
        self._entries.move_to_end(entry.invocation_id)
        while len(self._entries) > self._kept_count:
            self._entries.popitem(last=False)


def _entry(
    invocation: Invocation, step: Step, tool_version: str | None = None, outcome: Outcome | None = None
) -> Entry:
    return Entry(
        invocation_id=invocation.invocation_id,
        principal=invocation.principal.name,
        tool=invocation.tool,
        step=step,
        tool_version=tool_version,
        outcome=outcome,
    )
