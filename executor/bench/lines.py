"""What was measured, line by line, and what was not. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from executor.bench.figures import Figures
from executor.bench.names import Gap


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuCost:
    """Processor time of one call, with everything that it left to do."""

    total_ms: float
    kernel_threads_ms: float
    """Of it, what kernel threads did later: clean-up of namespaces, mounts and cgroups."""
    samples: int

    @property
    def drowned(self) -> bool:
        """Whether kernel threads did more than the call itself: then it was mostly the work of others here."""
        return self.kernel_threads_ms > self.total_ms / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    peer: str
    row: str
    in_flight: int
    gap: Gap
    figures: Figures
    cpu: CpuCost | None = None
    """None where it was not measured; it stands at single calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """A peer, or a row of a peer, that was not measured."""

    peer: str
    row: str | None
    """None for all of them."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Parked:
    """What sandboxes of our own hold while they wait for their call."""

    kind: str
    sandboxes: int
    pss_mib: float
    """Proportional set size of one: what it shares with others is divided by their number, and so falls with it."""
    private_mib: float
    """What one more takes: nobody shares it."""


def with_costs(lines: Iterable[Line], costs: Mapping[tuple[str, str], CpuCost]) -> tuple[Line, ...]:
    """Each cost, by peer and row, at the line of single calls with pauses: every plan has that one."""
    return tuple(
        replace(line, cpu=costs.get((line.peer, line.row))) if (line.in_flight, line.gap) == (1, Gap.PAUSES) else line
        for line in lines
    )
