"""Clears away what is left of dead sandboxes, after the answer of their call, and never lags far behind.

A sandbox comes here when its process tree is dead: what remains are descriptors, a cgroup and a host id. On the event
loop.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")

DELAY_SECONDS = 0.002
"""So that the answer, which is on its way, leaves first; and several are cleared away at one wake-up."""
MOST_WAITING = 64
"""With so many to be cleared away, no new sandbox is made."""


class Reaper(Generic[T]):
    def __init__(self, clear: Callable[[T], Coroutine[Any, Any, None]], most: int = MOST_WAITING) -> None:
        """`clear` never raises."""
        self._clear, self._most = clear, most
        self._waiting: list[T] = []
        self._clearing: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._progress = asyncio.Event()

    @property
    def backlog(self) -> int:
        return len(self._waiting) + len(self._clearing)

    def take(self, one: T) -> None:
        self._waiting.append(one)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(DELAY_SECONDS, self._begin)

    def expect(self, work: Coroutine[Any, Any, None]) -> None:
        """Something else that is to be over when all is drained."""
        task = asyncio.ensure_future(work)
        self._clearing.add(task)
        task.add_done_callback(self._done)

    async def room(self) -> None:
        """Back-pressure: returns when the backlog is below its bound."""
        await self._until_below(self._most)

    async def drained(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._begin()
        await self._until_below(1)

    async def _until_below(self, number: int) -> None:
        while self.backlog >= number:
            self._progress.clear()
            await self._progress.wait()

    def _begin(self) -> None:
        self._timer = None
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            self.expect(self._clear(one))

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._clearing.discard(task)
        self._progress.set()
