"""`executor bench`: measures the service on this machine beside the peers that it has, and writes what came out."""

import asyncio
import json
import logging
from collections.abc import Mapping
from pathlib import Path

from executor.bench.peer import CallFailed
from executor.bench.plots import latency, rate
from executor.bench.report import Report, as_json, as_markdown
from executor.bench.run import Choice
from executor.bench.run import bench as measured
from executor.cli import console
from executor.cli.exits import Exit
from executor.cli.interrupts import interrupts
from executor.model.errors import Unavailable
from executor.telemetry import logs


async def bench(choice: Choice, output_dir: Path, *, strict: bool) -> Exit:
    """NOT_OK where a call failed or something was left behind; with `strict`, also where a goal is missed.

    Raises Unavailable where the service does not run here at all. Interrupted, it ends what it started, writes nothing.
    """
    logs.configure(logs.LogForm.CONSOLE, level=logging.WARNING)
    working = asyncio.create_task(measured(choice))
    with interrupts(working.cancel):
        await asyncio.wait((working,))
    if working.cancelled():
        console.fault("interrupted, nothing was written")
        return Exit.NOT_OK
    try:
        report = working.result()
    except CallFailed as error:
        raise Unavailable(f"the service was not measured, because it does not do its work: {error}") from error
    write(report, output_dir)
    console.out(as_markdown(report))
    return status(report, strict=strict)


def status(report: Report, *, strict: bool) -> Exit:
    return Exit.NOT_OK if report.failed or (strict and report.missed) else Exit.OK


def write(report: Report, output_dir: Path) -> None:
    output_dir.mkdir(parents=True, exist_ok=True)
    contents: Mapping[str, str] = {
        "bench.json": json.dumps(as_json(report), indent=1) + "\n",
        "bench.md": as_markdown(report),
        "latency.svg": latency(report.lines),
        "rate.svg": rate(report.lines),
    }
    for name, content in contents.items():
        (output_dir / name).write_text(content)
