"""What is measured, how often, and in which order. Pure: the same plan for the same question.

In every round each peer has its turn once, so that a drift of the machine hits all alike; the order within a round is
shuffled, so that no peer always pays for what the same other one left to the kernel.
"""

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from executor.bench.names import BWRAP, OURS, SPAWN, UNSHARE, Gap
from executor.bench.rows import Depth, Row

GAP_SECONDS = (0.020, 0.050)
IN_FLIGHT = (1, 2, 8, 32)
DRAIN_SECONDS = 3.0
"""For the kernel to clean up what calls have left; also the time in which its idle rate is taken."""
_NEAR = frozenset({OURS, SPAWN, BWRAP})
_FRESH = frozenset({OURS, SPAWN})
"""Ours, and a fresh process of the same program."""
_MOST_HEAVY = 8
"""In flight: fresh interpreters that import pandas fill the memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One line of figures for each peer."""

    row: Row
    in_flight: int
    gap: Gap
    rounds: int
    calls: int = 0
    """Of one peer in one round, with pauses; 0 in a loop."""
    lasting_seconds: float = 0.0
    """How long calls are started in one round of a loop; those that run are waited for, and count."""
    seconds: float
    """No new round starts after that, however slow the machine; the samples say how many there were."""
    peers: frozenset[str] | None = None
    """None means all."""
    others_every: int = 1
    """Peers other than ours take part in each such round."""


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
    drain_seconds: float = DRAIN_SECONDS

    @property
    def rows(self) -> tuple[Row, ...]:
        return tuple({cell.row.name: cell.row for cell in self.cells}.values())

    def takes(self, peer: str, row: Row) -> bool:
        """Whether the peer is asked for the row at all."""
        return any(cell.row == row and (cell.peers is None or peer in cell.peers) for cell in self.cells)

    def within(self, seconds: float) -> "Plan":
        """The same cells, in about that much time where it is less than they would take: figures of few samples."""
        share = min(1.0, seconds / sum(cell.seconds for cell in self.cells))
        cells = (replace(c, seconds=c.seconds * share, lasting_seconds=c.lasting_seconds * share) for c in self.cells)
        probes = (replace(probe, calls=max(1, int(probe.calls * share))) for probe in self.probes)
        return Plan(cells=tuple(cells), probes=tuple(probes), drain_seconds=self.drain_seconds * share)


def full(rows: Iterable[Row]) -> Plan:
    """About ten minutes on two cores that do nothing else, with every peer there."""
    rows = tuple(rows)
    light = [row for row in rows if row.depth is Depth.GOAL and not row.heavy]
    heavy = [row for row in rows if row.heavy]
    short = [row for row in rows if row.depth is Depth.SHORT]
    salvos = {1: (200, 60.0), 2: (40, 20.0), 8: (10, 20.0), 32: (3, 20.0)}
    crowds = [count for count in IN_FLIGHT if count <= _MOST_HEAVY]
    return Plan(
        cells=(
            *(_salvo(row, count, *salvos[count]) for row in light for count in IN_FLIGHT),
            *(_loop(row, count, 2.0, rounds=1, seconds=25) for row in light for count in IN_FLIGHT),
            *(_salvo(row, 1, 100, 50.0, others_every=10) for row in heavy),
            *(_salvo(row, count, 4, 15.0, peers=_FRESH, others_every=2) for row in heavy for count in crowds[1:]),
            *(_loop(row, count, 2.0, rounds=2, seconds=10, peers=_FRESH) for row in heavy for count in crowds),
            *(_loop(row, IN_FLIGHT[-1], 2.0, rounds=1, seconds=5, peers=frozenset({OURS})) for row in heavy),
            *(_salvo(row, 1, 30, 10.0) for row in short),
            *(_salvo(row, count, 5, 5.0, peers=_NEAR) for row in short for count in IN_FLIGHT[1:]),
            *(_loop(row, count, 1.5, rounds=1, seconds=5, peers=_NEAR) for row in short for count in IN_FLIGHT),
        ),
        probes=(
            *(Probe(row=row, calls=100) for row in light),
            *(Probe(row=row, calls=20, peers=_FRESH) for row in heavy),
        ),
    )


def quick(rows: Iterable[Row]) -> Plan:
    """At most 50 seconds, start and end included: what the goals hang on, with few samples."""
    rows = tuple(rows)
    light = [row for row in rows if row.depth is Depth.GOAL and not row.heavy]
    heavy = [row for row in rows if row.depth is Depth.GOAL and row.heavy]
    true = light[:1]
    return Plan(
        cells=(
            *(_salvo(row, 1, 30, 5.0) for row in light),
            *(_salvo(row, 1, 40, 4.5, peers=_FRESH, others_every=10) for row in heavy),
            *(_loop(row, count, 1.0, rounds=1, seconds=3, peers=_NEAR) for row in true for count in (8, 32)),
            *(_loop(row, 8, 1.0, rounds=1, seconds=3, peers=_FRESH) for row in rows if row.depth is Depth.RATE),
        ),
        probes=tuple(Probe(row=row, calls=100, peers=frozenset({OURS, UNSHARE})) for row in true),
    )


def _salvo(  # noqa: PLR0913 - the fields of a cell
    row: Row,
    in_flight: int,
    rounds: int,
    seconds: float,
    *,
    peers: frozenset[str] | None = None,
    others_every: int = 1,
) -> Cell:
    return Cell(
        row=row,
        in_flight=in_flight,
        gap=Gap.PAUSES,
        rounds=rounds,
        calls=in_flight,
        seconds=seconds,
        peers=peers,
        others_every=others_every,
    )


def _loop(  # noqa: PLR0913 - the fields of a cell
    row: Row,
    in_flight: int,
    lasting_seconds: float,
    *,
    rounds: int,
    seconds: float,
    peers: frozenset[str] | None = None,
) -> Cell:
    return Cell(
        row=row,
        in_flight=in_flight,
        gap=Gap.NONE,
        rounds=rounds,
        lasting_seconds=lasting_seconds,
        seconds=seconds,
        peers=peers,
    )


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
