"""A measured line, and the names that others must know. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from .figures import Figures
from .plan import Gap

OURS = "executor"
"""The whole service, called over gRPC on a Unix socket."""
IN_PROCESS = "executor, in process"
SPAWN = "posix_spawn"
UNSHARE = "unshare"
BWRAP = "bwrap"
DOCKER = "docker run"


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuCost:
    """Processor time of one call, with everything that it left to do."""

    total_ms: float
    kernel_threads_ms: float
    """Of it, what kernel threads did later: clean-up of namespaces, mounts and cgroups."""
    samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    peer: str
    row: str
    in_flight: int
    gap: Gap
    figures: Figures
    cpu: CpuCost | None = None
    """None where it was not measured: it is for one in flight without gaps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """A peer, or a row of a peer, that was not measured."""

    peer: str
    row: str | None
    """None for all of them."""
    reason: str


def with_costs(lines: Iterable[Line], costs: Mapping[tuple[str, str], CpuCost]) -> tuple[Line, ...]:
    """Each cost, by peer and row, at the line that it was measured for."""
    return tuple(
        replace(line, cpu=costs.get((line.peer, line.row))) if (line.in_flight, line.gap) == (1, Gap.NONE) else line
        for line in lines
    )
