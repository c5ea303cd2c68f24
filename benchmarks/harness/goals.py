"""What the figures must be. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .lines import BWRAP, OURS, Line
from .plan import Gap


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    name: str
    value: float | None
    """None where it was not measured, which does not meet the goal."""
    goal: float
    """At most this."""
    unit: str

    @property
    def met(self) -> bool:
        return self.value is not None and self.value <= self.goal


@dataclass(frozen=True, slots=True)
class _Goal:
    name: str
    goal: float
    unit: str
    measure: Callable[[Sequence[Line]], float | None]


def judge(lines: Sequence[Line]) -> tuple[Verdict, ...]:
    return tuple(Verdict(name=one.name, value=one.measure(lines), goal=one.goal, unit=one.unit) for one in _GOALS)


def _above_bwrap(lines: Sequence[Line]) -> float | None:
    ours, theirs = (_median(lines, peer, "true") for peer in (OURS, BWRAP))
    return None if ours is None or theirs is None else ours - theirs


def _median(lines: Sequence[Line], peer: str, row: str) -> float | None:
    """Of single calls with pauses."""
    wanted = (peer, row, 1, Gap.PAUSES)
    found = (line for line in lines if (line.peer, line.row, line.in_flight, line.gap) == wanted)
    return next((line.figures.p50_ms for line in found), None)


_GOALS = (
    _Goal(
        name="p50 of `true` through the service, less that of bwrap, one in flight, 20-50 ms apart",
        goal=10.0,
        unit="ms",
        measure=_above_bwrap,
    ),
)
