"""One run, from the first peer's start to the report."""

import asyncio
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import psutil

from executor.bench import commands, docker, machine, memory, orphans, ours, roots, runc
from executor.bench.goals import Evidence, judge
from executor.bench.lines import Absence, Parked, with_costs
from executor.bench.measure import Measuring
from executor.bench.names import DOCKER_EXEC, DOCKER_RUN, IDLE_MEMORY, LLM_SANDBOX, OURS, RUNC, SANDLOCK
from executor.bench.peer import Join, Party
from executor.bench.plan import full, quick
from executor.bench.report import Report
from executor.bench.rows import ROWS, Depth

SEED = 7
ORPHAN_SECONDS = 5.0
_LOOK_SECONDS = 0.05
_QUICK = "a quick run leaves it out; run without --quick"
_LIBRARIES = (SANDLOCK, LLM_SANDBOX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What the caller of the benchmark wants."""

    quick: bool = False
    seconds: float | None = None
    """About how long the cells may take in all; None means as long as the plan says."""
    images_dir: Path
    also: Sequence[Join] = ()
    """Peers that are libraries of Python, which this package does not bring."""


async def bench(choice: Choice) -> Report:
    """Raises ServiceError or CallFailed where our own service does not run here at all."""
    began = time.monotonic()
    facts = machine.facts()
    orphans.adopt()
    places = roots.find(choice.images_dir)
    lacking = roots.absences(ROWS, places)
    rows = [row for row in ROWS if row.name not in {one.row for one in lacking}]
    plan = quick(rows) if choice.quick else full(rows)
    if choice.seconds is not None:
        plan = plan.within(choice.seconds)
    with tempfile.TemporaryDirectory(prefix="executor-bench-") as directory:
        async with AsyncExitStack() as stack:
            needed = {row.image for row in rows}
            party = Party(stack, Path(directory), {name: root for name, root in places.items() if name in needed})
            party.absences.extend(lacking)
            goal_rows = (row for row in plan.rows if row.depth is Depth.GOAL)
            # Those once more at the end: their sandboxes are the ones that are parked then.
            server = await ours.join(party, (*plan.rows, *goal_rows), choice.images_dir)
            parked = await _parked(party, server)
            await _gather(party, choice)
            measuring = Measuring(party.peers, SEED)
            await measuring.warm_up(plan)
            lines = [line for cell in plan.cells for line in await measuring.cell(cell)]
            costs = await measuring.costs(plan.probes, plan.drain_seconds)
    measured = with_costs(lines, costs.by_peer_and_row)
    absences = (*party.absences, *measuring.absences(rows, plan))
    return Report(
        machine={**facts, "load_at_end": machine.load(), "seconds": round(time.monotonic() - began, 1)},
        posture=party.posture,
        lines=measured,
        parked=tuple(parked),
        absences=absences,
        verdicts=judge(Evidence(lines=measured, parked=parked, absences=absences)),
        troubles=(*costs.failures, *party.troubles, *await _left_behind()),
    )


async def _parked(party: Party, server: int) -> list[Parked]:
    try:
        return await memory.parked(server)
    except (OSError, psutil.Error) as error:
        reason = f"the memory of its processes cannot be read: {error}; run as root"
        party.absences.append(Absence(peer=OURS, row=IDLE_MEMORY, reason=reason))
        return []


async def _gather(party: Party, choice: Choice) -> None:
    await commands.join(party)
    if choice.quick:
        for name in (RUNC, DOCKER_RUN, DOCKER_EXEC, *_LIBRARIES):
            party.lacks(name, _QUICK)
        return
    for join in (runc.join, docker.join, *choice.also):
        await join(party)
    there = {peer.name for peer in party.peers} | {one.peer for one in party.absences if one.row is None}
    for name in _LIBRARIES:
        if name not in there:
            party.lacks(name, "it is a library of Python; `make bench` of the source tree brings it")


async def _left_behind() -> list[str]:
    """Processes that outlive everybody who was told to end them; what has only just ended is waited for."""
    until = time.monotonic() + ORPHAN_SECONDS
    while True:
        orphans.reap()
        left = psutil.Process().children(recursive=True)
        if not left or time.monotonic() > until:
            return [f"process {one.pid} was left behind: {one.name()}" for one in left]
        await asyncio.sleep(_LOOK_SECONDS)
