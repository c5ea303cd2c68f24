"""The life of one sandbox: open, run, collect, close. Knows the backend's contract and nothing of tools or outcomes.

Cancellation is an event that the owner of the invocation sets, so that a cancelled call still ends in an answer; the
task that runs the session is never cancelled itself.
"""

import asyncio
import time
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from executor.model.errors import InvocationCancelled
from executor.model.outcome import Ran
from executor.model.run import Collection, Process, SandboxSpec, Usage
from executor.sandbox.contract import Backend, OnOutput

T = TypeVar("T")


async def unless(cancelled: asyncio.Event, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, or InvocationCancelled, after `work` has unwound, where the event comes first."""
    task = asyncio.ensure_future(work)
    waiter = asyncio.ensure_future(cancelled.wait())
    try:
        await asyncio.wait((task, waiter), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        task.cancel()
        await asyncio.wait((task,))
        if task.cancelled():
            raise InvocationCancelled("the call was cancelled")
        return task.result()
    finally:
        waiter.cancel()
        task.cancel()


async def run(  # noqa: PLR0913 - the six things that make a session
    backend: Backend,
    spec: SandboxSpec,
    process: Process,
    *,
    collect: Sequence[str],
    on_output: OnOutput,
    cancelled: asyncio.Event,
) -> Ran:
    """Raises InvocationError(SANDBOX_UNAVAILABLE), and InvocationCancelled where no sandbox was made yet."""
    began = time.monotonic()
    sandbox = await unless(cancelled, backend.open(spec))
    started = time.monotonic()
    try:
        report = await unless(cancelled, sandbox.run(process, on_output))
        own = [file.path for file in process.files if file.internal]
        collection = await sandbox.collect(collect, own) if collect else Collection()
        return Ran(isolation=sandbox.isolation, report=report, usage=report.usage, collection=collection)
    except InvocationCancelled:
        now = time.monotonic()
        usage = Usage(setup_ms=1000 * (started - began), wall_ms=1000 * (now - started))
        return Ran(isolation=sandbox.isolation, report=None, usage=usage)
    finally:
        await sandbox.close()
