"""The invocations that run now: each in a task of its own, which is never cancelled, only told to end.

An RPC comes and goes with its client. The invocation stays until the pipeline has finished with it, or its sandbox
would be left behind; so the registry owns the task, and a drain waits for all of them.
"""

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

from executor.ingress.errors import Draining
from executor.ingress.needs import Executes
from executor.model.errors import ServiceError
from executor.model.invocation import Invocation, Principal
from executor.model.outcome import Outcome
from executor.sandbox.recorder import Observer
from executor.telemetry.logs import log_outcome, logger

LOG_SECONDS = 0.01
"""After its end an invocation is logged: first its answer leaves."""
LOG_COUNT = 16
"""Logged in one turn of the loop; each takes some 50 microseconds."""
_log = logger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Running:
    """A started invocation. As a block: it has ended when the block is left, on its own or because of that."""

    invocation: Invocation
    cancelled: asyncio.Event
    task: asyncio.Task[Outcome]

    async def outcome(self) -> Outcome:
        """Unlike `await task`, being cancelled here does not reach into the pipeline."""
        if not self.task.done():
            ended = asyncio.get_running_loop().create_future()
            self.task.add_done_callback(lambda _: None if ended.done() else ended.set_result(None))
            await ended
        return self.task.result()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if not self.task.done():
            self.cancelled.set()
            await asyncio.wait((self.task,))


class _Ended(NamedTuple):
    running: Running
    elapsed_ms: float


class Registry:
    def __init__(self, pipeline: Executes) -> None:
        self._pipeline = pipeline
        self._running: dict[str, Running] = {}
        self._draining = False
        self._unlogged: deque[_Ended] = deque()

    @property
    def count(self) -> int:
        return len(self._running)

    def running(self, invocation: Invocation, observer: Observer) -> Running:
        """Starts it. Raises Draining."""
        if self._draining:
            raise Draining("The service is shutting down and takes no new calls; nothing ran.")
        cancelled, began = asyncio.Event(), time.monotonic()
        task = asyncio.create_task(
            self._pipeline.execute(invocation, observer, cancelled), name=f"invocation {invocation.invocation_id}"
        )
        running = Running(invocation, cancelled, task)
        self._running[invocation.invocation_id] = running
        task.add_done_callback(lambda _: self._end(running, began))
        return running

    def find(
        self, principal: Principal, *, invocation_id: str | None = None, call_id: str | None = None
    ) -> tuple[Running, ...]:
        """Of this principal's tenant alone."""
        return tuple(
            one
            for one in self._running.values()
            if one.invocation.principal.tenant == principal.tenant
            and (
                one.invocation.invocation_id == invocation_id
                or (call_id is not None and one.invocation.call_id == call_id)
            )
        )

    @staticmethod
    async def cancel(those: Sequence[Running]) -> None:
        """They have ended when this returns."""
        for one in those:
            one.cancelled.set()
        if those:
            await asyncio.wait([one.task for one in those])

    async def drain(self, grace_seconds: float) -> None:
        """Nothing new from now on; what runs may end by itself for so long, then is cancelled. Idempotent."""
        self._draining = True
        tasks = [one.task for one in self._running.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=grace_seconds)
        await self.cancel(tuple(self._running.values()))
        self._log_ended(len(self._unlogged))

    def _end(self, running: Running, began: float) -> None:
        del self._running[running.invocation.invocation_id]
        if not self._unlogged:
            running.task.get_loop().call_later(LOG_SECONDS, self._log_ended, LOG_COUNT)
        self._unlogged.append(_Ended(running, 1000 * (time.monotonic() - began)))

    def _log_ended(self, most: int) -> None:
        for _ in range(min(most, len(self._unlogged))):
            running, elapsed_ms = self._unlogged.popleft()
            _log_end(running, elapsed_ms)
        if self._unlogged:
            running.task.get_loop().call_soon(self._log_ended, LOG_COUNT)


def _log_end(running: Running, elapsed_ms: float) -> None:
    error = None if running.task.cancelled() else running.task.exception()
    if error is None and not running.task.cancelled():
        log_outcome(_log, running.task.result(), elapsed_ms)
    elif isinstance(error, ServiceError):
        _log.warning("invocation refused", invocation_id=running.invocation.invocation_id, error=str(error))
    else:
        _log.error("invocation broke", invocation_id=running.invocation.invocation_id, exc_info=error)
