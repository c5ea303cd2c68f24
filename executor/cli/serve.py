"""`executor serve`: the server's life from its ready line to its last outcome."""

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable

from executor.app import MakeBackend, listening, open_service
from executor.cli.exits import Exit
from executor.cli.interrupts import interrupts
from executor.settings import Settings
from executor.telemetry import logs
from executor.telemetry.lines import Lines


async def serve(settings: Settings, make_backend: MakeBackend) -> Exit:
    """The first signal drains, the second cancels what still runs."""
    first, second = asyncio.Event(), asyncio.Event()
    lines = _configure_logs(settings)
    with interrupts(lambda: second.set() if first.is_set() else first.set()):
        async with open_service(settings, make_backend) as service, listening(service) as server:
            for warning in service.warnings:
                lines.write(f"{warning}\n")
            lines.write(f"executor is ready on {', '.join(server.addresses)}\n")
            await first.wait()
            lines.write(f"executor is draining: {server.running_count} running, up to {settings.drain_seconds:g} s\n")
            await _drained(server.drain, settings.drain_seconds, second)
    return Exit.OK


async def _drained(drain: Callable[[float], Awaitable[None]], grace_seconds: float, at_once: asyncio.Event) -> None:
    patient = asyncio.ensure_future(drain(grace_seconds))
    impatient = asyncio.create_task(at_once.wait())
    await asyncio.wait((patient, impatient), return_when=asyncio.FIRST_COMPLETED)
    if not patient.done():
        await drain(0)
    impatient.cancel()
    await patient


def _configure_logs(settings: Settings) -> Lines:
    """Of stderr: the loop never waits for who reads it."""
    form = {"json": logs.LogForm.JSON, "text": logs.LogForm.CONSOLE}.get(settings.log_format)
    if form is None:
        form = logs.LogForm.CONSOLE if sys.stderr.isatty() else logs.LogForm.JSON
    return logs.configure(form, level=logging.getLevelNamesMapping()[settings.log_level.upper()])
