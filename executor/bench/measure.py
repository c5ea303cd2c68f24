"""Carries a plan out. Every call that fails is a sample with a reason; nothing here decides what the figures mean."""

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat

from executor.bench import cpu, orphans
from executor.bench.figures import Block, Sample, figures
from executor.bench.lines import Absence, CpuCost, Line
from executor.bench.names import EVERYBODY, OURS, Gap
from executor.bench.peer import CallFailed, Peer, bounded
from executor.bench.plan import Cell, Plan, Probe, pauses, turns
from executor.bench.rows import Row

_WARM_CALLS = 2
_LEFT_OUT = "a quick run leaves it out; run without --quick"


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

    def absences(self, rows: Iterable[Row], plan: Plan) -> list[Absence]:
        """What peers cannot run, and what the plan does not ask them for."""
        return [one for row in rows for one in self._absent(row, plan)]

    def _absent(self, row: Row, plan: Plan) -> list[Absence]:
        asked = {name for name in self._peers if plan.takes(name, row)}
        if not asked:
            return [Absence(peer=EVERYBODY, row=row.name, reason=_LEFT_OUT)]
        told = (
            (name, peer.refuses(row) or (None if name in asked else _LEFT_OUT)) for name, peer in self._peers.items()
        )
        return [Absence(peer=name, row=row.name, reason=reason) for name, reason in told if reason]

    async def warm_up(self, plan: Plan) -> None:
        """First times are not what is measured. A failure here comes again where it counts."""
        for row in plan.rows:
            for peer in self._able(row):
                if plan.takes(peer.name, row):
                    await _block(peer, row, repeat(None, 1 if row.heavy else _WARM_CALLS), 1)

    async def cell(self, cell: Cell) -> list[Line]:
        able = {peer.name: peer for peer in self._able(cell.row, cell.peers) if peer.most_in_flight >= cell.in_flight}
        every = {
            name: peer.every if name == OURS else max(peer.every, cell.others_every) for name, peer in able.items()
        }
        blocks: dict[str, list[Block]] = {name: [] for name in able}
        until = time.monotonic() + cell.seconds
        for present in turns(every, cell.rounds, self._seed):
            for name in present:
                if cell.gap is Gap.PAUSES:
                    await asyncio.sleep(next(self._pauses))
                blocks[name].append(await _block(able[name], cell.row, _starts(cell), cell.in_flight))
            if time.monotonic() > until:
                break
        return [
            Line(peer=name, row=cell.row.name, in_flight=cell.in_flight, gap=cell.gap, figures=figures(found))
            for name, found in blocks.items()
        ]

    async def costs(self, probes: Sequence[Probe], drain_seconds: float) -> Costs:
        costs = Costs()
        idle = await _idle_rate(drain_seconds) if probes else 0.0
        for probe in probes:
            for peer in self._able(probe.row, probe.peers):
                block, cost = await _cost(peer, probe, idle, drain_seconds)
                costs.by_peer_and_row[peer.name, probe.row.name] = cost
                costs.failures.extend(f"{peer.name}, `{probe.row.name}`: {one}" for one in _reasons(block))
        return costs

    def _able(self, row: Row, among: frozenset[str] | None = None) -> Iterator[Peer]:
        peers = (peer for peer in self._peers.values() if among is None or peer.name in among)
        return (peer for peer in peers if peer.refuses(row) is None)


def _starts(cell: Cell) -> Iterator[None]:
    """One for each call that is to be started."""
    return repeat(None, cell.calls) if cell.calls else _until(time.perf_counter() + cell.lasting_seconds)


def _until(end: float) -> Iterator[None]:
    """At least one."""
    yield None
    while time.perf_counter() < end:
        yield None


async def _block(peer: Peer, row: Row, starts: Iterator[None], in_flight: int) -> Block:
    samples: list[Sample] = []

    async def one_after_another() -> None:
        for _ in starts:
            samples.append(await _sample(peer, row))  # noqa: PERF401 - shared by all who work here

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(in_flight):
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


async def _cost(peer: Peer, probe: Probe, idle: float, drain_seconds: float) -> tuple[Block, CpuCost]:
    calls = max(1, probe.calls // peer.every)
    began, before = time.monotonic(), cpu.read(peer.processes)
    block = await _block(peer, probe.row, repeat(None, calls), 1)
    await asyncio.sleep(drain_seconds)
    orphans.reap()
    spent = cpu.read(peer.processes) - before
    kernel = max(0.0, spent.kernel_threads - idle * (time.monotonic() - began))
    return block, CpuCost(
        total_ms=(spent.processes + kernel) * 1000 / calls,
        kernel_threads_ms=kernel * 1000 / calls,
        samples=calls,
    )


async def _idle_rate(drain_seconds: float) -> float:
    """Seconds of the kernel's threads in a second in which we do nothing."""
    await asyncio.sleep(drain_seconds)
    began, before = time.monotonic(), cpu.read()
    await asyncio.sleep(drain_seconds)
    return (cpu.read() - before).kernel_threads / (time.monotonic() - began)
