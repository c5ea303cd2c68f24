"""From samples to figures. Pure."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

TOTAL = "total_ms"
"""The server's own time of one call, where it tells it: no part, but what the parts are of."""
REST = "rest_ms"
"""What the caller waited beyond what the server tells: the wire and the client."""
SPREAD = (1, 5, 25, 50, 75, 95, 99)
"""Percentiles that show how latencies are distributed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One call."""

    latency_ms: float
    failure: str | None = None
    """Why it does not count, in words."""
    parts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Calls to one peer with nothing else in between."""

    samples: tuple[Sample, ...]
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    samples: int
    """Those that did not fail; the rest of the figures is of them."""
    failures: int
    p50_ms: float | None = None
    """None where no call succeeded."""
    p95_ms: float | None = None
    p99_ms: float | None = None
    max_ms: float | None = None
    rate: float | None = None
    """Calls per second while calls were in flight; gaps do not count."""
    spread_ms: tuple[float, ...] = ()
    """The percentiles of SPREAD; empty where no call succeeded."""
    parts_p50: Mapping[str, float] = field(default_factory=dict)
    """Median of each part by itself; they need not add up to the median of the whole."""
    first_failure: str | None = None


def percentile(values: Sequence[float], percent: float) -> float:
    """Nearest rank: always one of the values. They need not be sorted."""
    if not values:
        raise ValueError("there is no percentile of nothing")
    return sorted(values)[max(0, math.ceil(percent / 100 * len(values)) - 1)]


def figures(blocks: Iterable[Block]) -> Figures:
    blocks = tuple(blocks)
    samples = [sample for block in blocks for sample in block.samples]
    good = [sample for sample in samples if sample.failure is None]
    failures = [sample.failure for sample in samples if sample.failure is not None]
    if not good:
        return Figures(samples=0, failures=len(failures), first_failure=next(iter(failures), None))
    latencies = [sample.latency_ms for sample in good]
    seconds = sum(block.seconds for block in blocks)
    return Figures(
        samples=len(good),
        failures=len(failures),
        p50_ms=percentile(latencies, 50),
        p95_ms=percentile(latencies, 95),
        p99_ms=percentile(latencies, 99),
        max_ms=max(latencies),
        rate=len(good) / seconds if seconds > 0 else None,
        spread_ms=tuple(percentile(latencies, percent) for percent in SPREAD),
        parts_p50=_parts(good),
        first_failure=next(iter(failures), None),
    )


def _parts(samples: Sequence[Sample]) -> dict[str, float]:
    """The median of each part that any sample tells, in the order in which they are told."""
    told = [sample for sample in samples if sample.parts]
    names = dict.fromkeys(name for sample in told for name in sample.parts)
    parts = {name: percentile([s.parts[name] for s in told if name in s.parts], 50) for name in names}
    return parts | {REST: percentile(list(map(_rest, told)), 50)} if told else {}


def _rest(sample: Sample) -> float:
    parts = sum(value for name, value in sample.parts.items() if name != TOTAL)
    return sample.latency_ms - sample.parts.get(TOTAL, parts)
