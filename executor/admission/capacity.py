"""Holds back what this host cannot run at once. The clockwork around `places`, which decides.

Bounded everywhere: a call runs, waits for a bounded time in a bounded queue, or is sent away with a time to come back.
"""

import asyncio
import itertools
import math
import time
from collections.abc import Awaitable, Callable

from executor.admission.deadline import last_start, too_late
from executor.admission.places import Answer, Places, retry_after_ms
from executor.model.errors import ErrorCode, ErrorDetail, InvocationCancelled, InvocationError
from executor.model.invocation import Principal
from executor.model.tool import Tool

FIRST_GUESS_MS = 1000.0
"""How long a call holds its slot, before any has."""
WEIGHT = 0.2
"""Of the newest call in the running mean of that."""


class Slots:
    """One per process."""

    def __init__(
        self,
        *,
        slots: int,
        queue_length: int,
        queue_timeout_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._places = Places(slots=slots, queue_length=queue_length)
        self._slots, self._timeout_seconds, self._clock = slots, queue_timeout_seconds, clock
        self._tickets = itertools.count()
        self._turns: dict[int, asyncio.Future[None]] = {}
        self._held_ms = FIRST_GUESS_MS

    def slot(
        self, principal: Principal, tool: Tool, cancelled: asyncio.Event, deadline: float | None = None
    ) -> "_Slot":
        del principal  # all share one queue while there is one principal
        ticket = next(self._tickets)
        return _Slot(
            self._clock,
            lambda: self._admitted(ticket, tool, cancelled, deadline),
            lambda held_ms: self._leave(ticket, held_ms),
        )

    async def _admitted(self, ticket: int, tool: Tool, cancelled: asyncio.Event, deadline: float | None) -> None:
        answer = self._places.ask(ticket, tool.name, tool.concurrency)
        if answer is Answer.FULL:
            raise self._overloaded(f"all {self._slots} slots are taken and the queue is full")
        if answer is Answer.QUEUED:
            await self._turn(ticket, cancelled, deadline)
        if cancelled.is_set():
            raise InvocationCancelled("the call was cancelled before it started")

    async def _turn(self, ticket: int, cancelled: asyncio.Event, deadline: float | None) -> None:
        now = self._clock()
        until_deadline = math.inf if deadline is None else max(0.0, last_start(deadline, now) - now)
        turn = self._turns[ticket] = asyncio.get_running_loop().create_future()
        gone = asyncio.ensure_future(cancelled.wait())
        try:
            timeout = min(self._timeout_seconds, until_deadline)
            await asyncio.wait((turn, gone), timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
        if turn.done() or cancelled.is_set():
            return
        if until_deadline < self._timeout_seconds:
            raise too_late(
                "a slot came free",
                suggestion="Call again later, or with a later deadline.",
                retry_after_ms=self._retry_after_ms(),
            )
        raise self._overloaded(f"no slot came free within {self._timeout_seconds:g} seconds")

    def _leave(self, ticket: int, held_ms: float | None) -> None:
        """`held_ms`: None where the slot never came."""
        if held_ms is not None:
            self._held_ms += WEIGHT * (held_ms - self._held_ms)
        self._turns.pop(ticket, None)
        for promoted in self._places.leave(ticket):
            self._turns[promoted].set_result(None)

    def _overloaded(self, reason: str) -> InvocationError:
        after_ms = self._retry_after_ms()
        return InvocationError(
            ErrorDetail(
                code=ErrorCode.OVERLOADED,
                message=f"The service has no capacity for this call: {reason}; nothing ran.",
                retryable=True,
                retry_after_ms=after_ms,
                suggestion=f"Call again in {after_ms / 1000:.1f} seconds.",
            )
        )

    def _retry_after_ms(self) -> int:
        return retry_after_ms(ahead=self._places.queued_count, slots=self._slots, held_ms=self._held_ms)


class _Slot:
    """The block that holds a slot; entering it takes its time in the queue, in milliseconds."""

    def __init__(
        self,
        clock: Callable[[], float],
        admitted: Callable[[], Awaitable[None]],
        leave: Callable[[float | None], None],
    ) -> None:
        self._clock, self._admitted, self._leave = clock, admitted, leave
        self._since = 0.0

    async def __aenter__(self) -> float:
        asked = self._clock()
        try:
            await self._admitted()
        except BaseException:  # also when cancelled: its place in the queue must not stay
            self._leave(None)
            raise
        self._since = self._clock()
        return (self._since - asked) * 1000

    async def __aexit__(self, *_: object) -> None:
        self._leave((self._clock() - self._since) * 1000)
