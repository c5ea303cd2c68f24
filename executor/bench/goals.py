"""What the figures must be, each a ratio of one run or a size. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from executor.bench.lines import Absence, Line, Parked
from executor.bench.names import BARE, BWRAP, DATA_PYTHON, DOCKER_RUN, EVERYBODY, IDLE_MEMORY, OURS, SPAWN, UNSHARE, Gap

TIMES = "x"


class Bound(StrEnum):
    AT_MOST = "at_most"
    AT_LEAST = "at_least"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    name: str
    value: float | None
    """None where it was not measured, which does not meet the goal."""
    goal: float
    bound: Bound
    unit: str
    why: str | None = None
    """What was not measured, and the reason."""

    @property
    def met(self) -> bool:
        if self.value is None:
            return False
        return self.value <= self.goal if self.bound is Bound.AT_MOST else self.value >= self.goal


class Figure(StrEnum):
    P50 = "p50"
    P99 = "p99"
    RATE = "rate"
    CPU = "CPU-ms with drain"


@dataclass(frozen=True, slots=True)
class Quantity:
    figure: Figure
    peer: str
    row: str
    in_flight: int = 1

    @property
    def gap(self) -> Gap:
        return Gap.NONE if self.figure is Figure.RATE else Gap.PAUSES

    def __str__(self) -> str:
        return f"{self.figure} of `{self.row}`"


@dataclass(frozen=True, slots=True)
class _Ratio:
    above: Quantity
    below: Quantity
    bound: Bound
    goal: float

    @property
    def name(self) -> str:
        where = f" with {self.above.in_flight} in flight" if self.above.in_flight > 1 else ""
        than = f"p50 of {self.below.peer}" if self.below.peer == self.above.peer else self.below.peer
        return f"{self.above}{where}: {self.above.peer} / {than}"


@dataclass(frozen=True, slots=True)
class _Size:
    kind: str
    goal_mib: float

    @property
    def name(self) -> str:
        return f"idle memory of a parked sandbox, {self.kind} (PSS)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What goals are judged by."""

    lines: Sequence[Line]
    parked: Sequence[Parked]
    absences: Sequence[Absence]


def judge(evidence: Evidence) -> tuple[Verdict, ...]:
    return (*(_judged(one, evidence) for one in _RATIOS), *(_weighed(one, evidence) for one in _SIZES))


def _judged(one: _Ratio, evidence: Evidence) -> Verdict:
    above, below = (_read(evidence.lines, quantity) for quantity in (one.above, one.below))
    missing = [quantity for quantity, value in ((one.above, above), (one.below, below)) if not value]
    return Verdict(
        name=one.name,
        value=above / below if above and below else None,
        goal=one.goal,
        bound=one.bound,
        unit=TIMES,
        why="; ".join(_why(quantity, evidence) for quantity in missing) or None,
    )


def _weighed(one: _Size, evidence: Evidence) -> Verdict:
    value = next((parked.pss_mib for parked in evidence.parked if parked.kind == one.kind), None)
    why = (
        None if value is not None else _reason(evidence.absences, OURS, IDLE_MEMORY) or f"no {one.kind} one was parked"
    )
    return Verdict(name=one.name, value=value, goal=one.goal_mib, bound=Bound.AT_MOST, unit="MiB", why=why)


def _read(lines: Iterable[Line], quantity: Quantity) -> float | None:
    line = _line(lines, quantity)
    if line is None:
        return None
    figures = line.figures
    return {
        Figure.P50: figures.p50_ms,
        Figure.P99: figures.p99_ms,
        Figure.RATE: figures.rate,
        Figure.CPU: line.cpu.total_ms if line.cpu and not line.cpu.drowned else None,
    }[quantity.figure]


def _line(lines: Iterable[Line], quantity: Quantity) -> Line | None:
    wanted = (quantity.peer, quantity.row, quantity.in_flight, quantity.gap)
    return next((line for line in lines if (line.peer, line.row, line.in_flight, line.gap) == wanted), None)


def _why(quantity: Quantity, evidence: Evidence) -> str:
    line = _line(evidence.lines, quantity)
    failure = line.figures.first_failure if line else None
    if quantity.figure is Figure.CPU and line and line.cpu and line.cpu.drowned:
        failure = "the kernel's threads were busy with the work of others; run it where nothing else runs"
    reason = failure or _reason(evidence.absences, quantity.peer, quantity.row) or "it was not measured"
    return f"{quantity} by {quantity.peer}: {reason}"


def _reason(absences: Iterable[Absence], peer: str, row: str) -> str | None:
    places = {(peer, None), (peer, row), (EVERYBODY, row)}
    return next((one.reason for one in absences if (one.peer, one.row) in places), None)


def _at_most(goal: float, figure: Figure, row: str, peer: str) -> _Ratio:
    above, below = (Quantity(figure, name, row) for name in (OURS, peer))
    return _Ratio(above, below, Bound.AT_MOST, goal)


def _rate_at_least(goal: float, row: str, in_flight: int, peer: str) -> _Ratio:
    above, below = (Quantity(Figure.RATE, name, row, in_flight) for name in (OURS, peer))
    return _Ratio(above, below, Bound.AT_LEAST, goal)


def _tail(row: str) -> _Ratio:
    return _Ratio(Quantity(Figure.P99, OURS, row), Quantity(Figure.P50, OURS, row), Bound.AT_MOST, 4)


GOAL_ROWS = ("true", "print(1)", "pandas group-by")
"""By latency."""

_RATIOS = (
    _at_most(2.0, Figure.P50, "true", SPAWN),
    _at_most(0.4, Figure.P50, "true", BWRAP),
    _at_most(0.01, Figure.P50, "true", DOCKER_RUN),
    _at_most(0.2, Figure.P50, "print(1)", SPAWN),
    _at_most(0.16, Figure.P50, "print(1)", BWRAP),
    _at_most(1 / 35, Figure.P50, "pandas group-by", SPAWN),
    *map(_tail, GOAL_ROWS),
    *(_rate_at_least(goal, "true", count, peer) for count in (8, 32) for peer, goal in ((BWRAP, 2.2), (SPAWN, 0.25))),
    _rate_at_least(40, "import pandas", 8, SPAWN),
    _at_most(2.0, Figure.CPU, "true", UNSHARE),
)
_SIZES = (_Size(BARE, 2.0), _Size(DATA_PYTHON, 8.0))


def quantities() -> tuple[Quantity, ...]:
    """All that goals are judged by, but for memory."""
    return tuple(quantity for one in _RATIOS for quantity in (one.above, one.below))
