"""From samples to figures. Pure."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

PARTS = ("queue_ms", "setup_ms", "wall_ms", "teardown_ms")
"""Of one call of ours, as its outcome tells them."""
REST = "rest_ms"
"""What the caller waited beyond those: the wire, the journey's other stages, closing the sandbox."""


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
        parts_p50=_parts(good),
        first_failure=next(iter(failures), None),
    )


def _parts(samples: Sequence[Sample]) -> dict[str, float]:
    told = [sample for sample in samples if sample.parts]
    if not told:
        return {}
    parts = {name: percentile([sample.parts[name] for sample in told], 50) for name in PARTS}
    rest = [sample.latency_ms - sum(sample.parts[name] for name in PARTS) for sample in told]
    return {**parts, REST: percentile(rest, 50)}
