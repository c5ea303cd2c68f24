"""Measures this service and its peers on this machine: python benchmarks/bench.py, or `make bench`.

Writes build/bench.json and build/bench.md, and the latter to standard output. With QUICK=1 in the environment it takes
under 50 seconds, with fewer samples and without peers that need an engine. The exit status is 1 where a goal is missed
or anything failed.
"""

import asyncio
import json
import logging
import os
import signal
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

from harness import docker, machine, orphans, ours, spawned
from harness.goals import judge
from harness.lines import BWRAP, DOCKER, OURS, Absence, with_costs
from harness.measure import Measuring
from harness.peer import CallFailed, Party
from harness.plan import full, quick
from harness.report import Report, as_json, as_markdown
from harness.rows import ROWS, Depth

from executor.model.errors import ServiceError
from executor.telemetry import logs

BUILD = Path(__file__).resolve().parent.parent / "build"
SEED = 7
INTERRUPTED = 130


async def bench(*, in_haste: bool) -> Report:
    """Raises ServiceError or CallFailed where our own service does not run here at all."""
    began = time.monotonic()
    facts = machine.facts()
    orphans.adopt()
    plan = quick(ROWS, frozenset({OURS, BWRAP})) if in_haste else full(ROWS)
    with tempfile.TemporaryDirectory(prefix="executor-bench-") as directory:
        async with AsyncExitStack() as stack:
            party = Party(stack, Path(directory))
            await _gather(party, in_haste=in_haste)
            measuring = Measuring(party.peers, SEED)
            await measuring.warm_up(plan.rows)
            lines = [line for cell in plan.cells for line in await measuring.cell(cell)]
            costs = await measuring.costs(plan.probes)
    return Report(
        machine={**facts, "load_at_end": machine.load(), "seconds": round(time.monotonic() - began, 1)},
        posture=party.posture,
        lines=with_costs(lines, costs.by_peer_and_row),
        absences=(*party.absences, *measuring.absences(plan.rows)),
        verdicts=judge(lines),
        troubles=(*costs.failures, *party.troubles),
    )


async def _gather(party: Party, *, in_haste: bool) -> None:
    await ours.join(party, next(row for row in ROWS if row.depth is Depth.GOAL))
    await spawned.join(party)
    if in_haste:
        party.absences.append(Absence(peer=DOCKER, row=None, reason="it needs an engine; a quick run leaves those out"))
    else:
        await docker.join(party)


async def _until_told() -> Report:
    """SIGTERM ends it as Ctrl-C does: with everything that was started."""
    working = asyncio.ensure_future(bench(in_haste=bool(os.environ.get("QUICK"))))
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, working.cancel)
    return await working


def main() -> int:
    logs.configure(logs.LogForm.CONSOLE, level=logging.WARNING)
    try:
        report = asyncio.run(_until_told())
    except (ServiceError, CallFailed) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("bench: interrupted, nothing was written", file=sys.stderr)
        return INTERRUPTED
    BUILD.mkdir(exist_ok=True)
    (BUILD / "bench.json").write_text(json.dumps(as_json(report), indent=1) + "\n")
    (BUILD / "bench.md").write_text(as_markdown(report))
    print(as_markdown(report))
    return 0 if report.good else 1


if __name__ == "__main__":
    sys.exit(main())
