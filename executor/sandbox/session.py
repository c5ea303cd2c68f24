"""The life of one sandbox: open, run, collect, close. Knows the backend's contract and nothing of tools or outcomes.

Cancellation is an event that the owner of the invocation sets, so that a cancelled call still ends in an answer: what
is waited for is interrupted here, and nobody else may cancel the task that runs the session.
"""

import asyncio
import time
from collections.abc import Coroutine, Sequence
from typing import Any, Self, TypeVar

from executor.model.errors import InvocationCancelled
from executor.model.outcome import Ran
from executor.model.run import Collection, Process, SandboxSpec, Usage
from executor.sandbox.contract import Backend, OnOutput

T = TypeVar("T")


class Unless:
    """`async with` watches an event; each work that is awaited through it is interrupted where the event comes first.

    The work is awaited in the task that is here already: tasks of its own would cost more than all else in a session.
    """

    def __init__(self, cancelled: asyncio.Event) -> None:
        self._cancelled = cancelled
        self._working: asyncio.Task[Any] | None = None
        self._interrupted = False

    async def __aenter__(self) -> Self:
        self._watch = asyncio.ensure_future(self._cancelled.wait())
        self._watch.add_done_callback(self._interrupt)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._watch.cancel()

    async def work(self, work: Coroutine[Any, Any, T]) -> T:
        """Its result; or InvocationCancelled, after it has unwound, where the event comes first."""
        if self._cancelled.is_set():
            work.close()
            raise InvocationCancelled("the call was cancelled")
        task = self._working = asyncio.current_task()
        try:
            return await work
        except asyncio.CancelledError:
            if self._interrupted and task and task.cancelling() == 1:
                raise InvocationCancelled("the call was cancelled") from None
            raise
        finally:
            self._working = None
            if self._interrupted and task:
                task.uncancel()

    def _interrupt(self, watch: asyncio.Future[Any]) -> None:
        if self._working and not watch.cancelled():
            self._interrupted = True
            self._working.cancel()


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
    async with Unless(cancelled) as unless:
        asked = time.monotonic()
        sandbox = await unless.work(backend.open(spec, process))
        started = time.monotonic()
        try:
            report = await unless.work(sandbox.run(process, on_output))
            dead = time.monotonic()
            own = [file.path for file in process.files if file.internal]
            collection = await sandbox.collect(collect, own) if collect else Collection()
            return Ran(
                isolation=sandbox.isolation,
                report=report,
                usage=report.usage,
                collection=collection,
                asked=asked,
                dead=dead,
            )
        except InvocationCancelled:
            dead = time.monotonic()
            usage = Usage(setup_ms=1000 * (started - asked), wall_ms=1000 * (dead - started))
            return Ran(isolation=sandbox.isolation, report=None, usage=usage, asked=asked, dead=dead)
        finally:
            await sandbox.close()
