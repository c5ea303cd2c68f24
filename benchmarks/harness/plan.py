"""What is measured, how often, and in which order. Pure: the same plan for the same question.

In every round each peer has its turn once, so that a drift of the machine hits all alike; the order within a round is
shuffled, so that no peer always pays for what the same other one left to the kernel.
"""

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from .rows import Depth, Row

GAP_SECONDS = (0.020, 0.050)
IN_FLIGHT = (1, 2, 8, 32)


class Gap(StrEnum):
    PAUSES = "20-50 ms"
    """A pause of random length comes before each call, or before each salvo where several are in flight: as an agent
    calls, and what it costs to wake up."""
    NONE = "none"
    """A closed loop: the next call starts when one has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One line of figures for each peer."""

    row: Row
    in_flight: int
    gap: Gap
    rounds: int
    calls: int
    """Of one peer in one round."""
    seconds: float
    """No new round starts after that, however slow the machine; the samples say how many there were."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A measurement of processor time: calls in a closed loop, one at a time, then the drain."""

    row: Row
    calls: int
    peers: frozenset[str] | None = None
    """None means all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    cells: tuple[Cell, ...]
    probes: tuple[Probe, ...]

    @property
    def rows(self) -> tuple[Row, ...]:
        return tuple({cell.row.name: cell.row for cell in self.cells}.values())


def full(rows: Iterable[Row]) -> Plan:
    """About five minutes on two cores."""
    rows = tuple(rows)
    deep = [row for row in rows if row.depth is not Depth.SHORT]
    salvos = {1: 100, 2: 40, 8: 10, 32: 2}
    loops = {1: (6, 16), 2: (6, 16), 8: (3, 32), 32: (2, 64)}
    return Plan(
        cells=(
            *(_salvo(row, count, salvos[count], seconds=25) for count in IN_FLIGHT for row in deep),
            *(_loop(row, count, *loops[count], seconds=12) for count in IN_FLIGHT for row in deep),
            *(_salvo(row, 1, 20, seconds=8) for row in rows if row.depth is Depth.SHORT),
        ),
        probes=tuple(Probe(row=row, calls=40) for row in deep),
    )


def quick(rows: Iterable[Row], probed: frozenset[str]) -> Plan:
    """At most 50 seconds; processor time of the peers `probed` alone, because each costs a whole drain."""
    rows = tuple(rows)
    goal = [row for row in rows if row.depth is Depth.GOAL]
    deep = [row for row in rows if row.depth is Depth.FULL]
    loops = {1: (2, 16), 8: (1, 32), 32: (1, 64)}
    return Plan(
        cells=(
            *(_salvo(row, 1, 50, seconds=14) for row in goal),
            *(_salvo(row, 1, 12, seconds=4) for row in deep),
            *(_loop(row, count, *loops[count], seconds=3) for count in loops for row in goal),
        ),
        probes=tuple(Probe(row=row, calls=20, peers=probed) for row in goal),
    )


def _salvo(row: Row, in_flight: int, rounds: int, *, seconds: float) -> Cell:
    return Cell(row=row, in_flight=in_flight, gap=Gap.PAUSES, rounds=rounds, calls=in_flight, seconds=seconds)


def _loop(row: Row, in_flight: int, rounds: int, calls: int, *, seconds: float) -> Cell:
    return Cell(row=row, in_flight=in_flight, gap=Gap.NONE, rounds=rounds, calls=calls, seconds=seconds)


def turns(every: Mapping[str, int], rounds: int, seed: int) -> Iterator[tuple[str, ...]]:
    """For each round the peers in their order. A peer takes part in each `every`-th round, from the first on."""
    shuffler = random.Random(seed)  # noqa: S311 - an order, no secret
    for number in range(rounds):
        present = [name for name, step in every.items() if number % step == 0]
        shuffler.shuffle(present)
        yield tuple(present)


def pauses(seed: int) -> Iterator[float]:
    """Endless, in seconds."""
    source = random.Random(seed)  # noqa: S311 - a pause, no secret
    while True:
        yield source.uniform(*GAP_SECONDS)
