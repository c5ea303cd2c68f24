"""Carries a plan out. Every call that fails is a sample with a reason; nothing here decides what the figures mean."""

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat

from . import cpu, orphans
from .figures import Block, Sample, figures
from .lines import Absence, CpuCost, Line
from .peer import CallFailed, Peer, bounded
from .plan import Cell, Gap, Probe, pauses, turns
from .rows import Row

DRAIN_SECONDS = 3.0
"""For the kernel to clean up what calls have left; also the time in which its idle rate is taken."""
_WARM_CALLS = 2


@dataclass(frozen=True, slots=True)
class Costs:
    by_peer_and_row: dict[tuple[str, str], CpuCost] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    """Of calls that were made for it."""


class Measuring:
    """One run; `seed` makes its order and its pauses repeatable."""

    def __init__(self, peers: Sequence[Peer], seed: int) -> None:
        self._peers = {peer.name: peer for peer in peers}
        self._seed = seed
        self._pauses = pauses(seed)

    def absences(self, rows: Iterable[Row]) -> list[Absence]:
        told = ((peer.name, row.name, peer.refuses(row)) for row in rows for peer in self._peers.values())
        return [Absence(peer=peer, row=row, reason=reason) for peer, row, reason in told if reason]

    async def warm_up(self, rows: Iterable[Row]) -> None:
        """First times are not what is measured. A failure here comes again where it counts."""
        for row in rows:
            for peer in self._able(row):
                await _block(peer, row, _WARM_CALLS, 1)

    async def cell(self, cell: Cell) -> list[Line]:
        able = {peer.name: peer for peer in self._able(cell.row) if peer.most_in_flight >= cell.in_flight}
        blocks: dict[str, list[Block]] = {name: [] for name in able}
        until = time.monotonic() + cell.seconds
        for present in turns({name: peer.every for name, peer in able.items()}, cell.rounds, self._seed):
            for name in present:
                if cell.gap is Gap.PAUSES:
                    await asyncio.sleep(next(self._pauses))
                blocks[name].append(await _block(able[name], cell.row, cell.calls, cell.in_flight))
            if time.monotonic() > until:
                break
        return [
            Line(peer=name, row=cell.row.name, in_flight=cell.in_flight, gap=cell.gap, figures=figures(found))
            for name, found in blocks.items()
        ]

    async def costs(self, probes: Sequence[Probe]) -> Costs:
        costs = Costs()
        idle = await _idle_rate() if probes else 0.0
        for probe in probes:
            for peer in self._able(probe.row):
                if probe.peers is None or peer.name in probe.peers:
                    block, cost = await _cost(peer, probe, idle)
                    costs.by_peer_and_row[peer.name, probe.row.name] = cost
                    costs.failures.extend(f"{peer.name}, `{probe.row.name}`: {one}" for one in _reasons(block))
        return costs

    def _able(self, row: Row) -> Iterator[Peer]:
        return (peer for peer in self._peers.values() if peer.refuses(row) is None)


async def _block(peer: Peer, row: Row, calls: int, in_flight: int) -> Block:
    waiting = iter(repeat(None, calls))
    samples: list[Sample] = []

    async def one_after_another() -> None:
        for _ in waiting:
            samples.append(await _sample(peer, row))  # noqa: PERF401 - shared by all who work here

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(min(in_flight, calls)):
            group.create_task(one_after_another())
    seconds = time.perf_counter() - began
    orphans.reap()
    return Block(samples=tuple(samples), seconds=seconds)


async def _sample(peer: Peer, row: Row) -> Sample:
    failure: str | None = None
    parts: Mapping[str, float] = {}
    began = time.perf_counter()
    try:
        parts = await bounded(peer, row)
    except CallFailed as error:
        failure = str(error)
    return Sample(latency_ms=(time.perf_counter() - began) * 1000, failure=failure, parts=parts)


def _reasons(block: Block) -> list[str]:
    """Each once."""
    return [*dict.fromkeys(sample.failure for sample in block.samples if sample.failure is not None)]


async def _cost(peer: Peer, probe: Probe, idle: float) -> tuple[Block, CpuCost]:
    calls = max(1, probe.calls // peer.every)
    began, before = time.monotonic(), cpu.read(peer.processes)
    block = await _block(peer, probe.row, calls, 1)
    await asyncio.sleep(DRAIN_SECONDS)
    spent = cpu.read(peer.processes) - before
    kernel = max(0.0, spent.kernel_threads - idle * (time.monotonic() - began))
    return block, CpuCost(
        total_ms=(spent.processes + kernel) * 1000 / calls,
        kernel_threads_ms=kernel * 1000 / calls,
        samples=calls,
    )


async def _idle_rate() -> float:
    """Seconds of the kernel's threads in a second in which we do nothing."""
    await asyncio.sleep(DRAIN_SECONDS)
    began, before = time.monotonic(), cpu.read()
    await asyncio.sleep(DRAIN_SECONDS)
    return (cpu.read() - before).kernel_threads / (time.monotonic() - began)
