import asyncio
import time

import pytest

from executor.admission.capacity import Slots
from executor.model.errors import EffectState, ErrorCode, InvocationCancelled, InvocationError
from executor.model.invocation import LOCAL
from executor.model.limits import Limits
from executor.model.tool import Command, Effect, Policy, Tool


def a_tool(name="shell", concurrency=16):
    return Tool(
        name=name,
        version="1.0.0",
        description="",
        parameters={"type": "object"},
        effect=Effect.READ_ONLY,
        policy=Policy(image="host", limits=Limits()),
        command=Command(argv=("true",)),
        concurrency=concurrency,
    )


class Caller:
    """Holds a slot until told to let go."""

    def __init__(self, capacity, tool, deadline=None):
        self.deadline = deadline
        self.cancelled, self.let_go, self.inside = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.queue_ms = None
        self.task = asyncio.ensure_future(self._run(capacity, tool))

    async def _run(self, capacity, tool):
        async with capacity.slot(LOCAL, tool, self.cancelled, self.deadline) as self.queue_ms:
            self.inside.set()
            await self.let_go.wait()

    async def end(self):
        self.let_go.set()
        await self.task


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


def slots(count=1, queue_length=8, timeout=30.0, **more):
    return Slots(slots=count, queue_length=queue_length, queue_timeout_seconds=timeout, **more)


async def test_a_call_waits_for_a_slot_and_is_told_how_long():
    now = [100.0]
    capacity = slots(clock=lambda: now[0])
    first = Caller(capacity, a_tool())
    await first.inside.wait()
    second = Caller(capacity, a_tool())
    await settle()
    assert not second.inside.is_set()
    now[0] += 1.5
    await first.end()
    await second.inside.wait()
    assert (first.queue_ms, second.queue_ms) == (0.0, 1500.0)
    await second.end()


async def test_a_call_beyond_the_queue_is_overloaded_with_a_time_to_come_back():
    capacity = slots(queue_length=0)
    first = Caller(capacity, a_tool())
    await first.inside.wait()
    with pytest.raises(InvocationError, match="queue is full") as caught:
        await Caller(capacity, a_tool()).task
    detail = caught.value.detail
    assert detail.code is ErrorCode.OVERLOADED
    assert detail.retryable
    assert detail.retry_after_ms >= 100
    await first.end()


async def test_a_call_that_waits_too_long_is_overloaded_and_leaves_the_queue():
    capacity = slots(queue_length=1, timeout=0.01)
    first = Caller(capacity, a_tool())
    await first.inside.wait()
    for _ in range(2):
        with pytest.raises(InvocationError, match=r"no slot came free within 0\.01 seconds"):
            await Caller(capacity, a_tool()).task
    await first.end()
    third = Caller(capacity, a_tool())
    await third.inside.wait()
    assert third.queue_ms is not None
    await third.end()


async def test_a_call_cancelled_while_it_waits_ends_and_gives_its_place_away():
    capacity = slots()
    first, second, third = (Caller(capacity, a_tool()) for _ in range(3))
    await first.inside.wait()
    await settle()
    second.cancelled.set()
    with pytest.raises(InvocationCancelled):
        await second.task
    await first.end()
    await third.inside.wait()
    assert not second.inside.is_set()
    await third.end()


async def test_a_call_cancelled_beforehand_never_starts():
    capacity = slots()
    cancelled = asyncio.Event()
    cancelled.set()
    with pytest.raises(InvocationCancelled):
        async with capacity.slot(LOCAL, a_tool(), cancelled):
            pytest.fail("it started")
    async with capacity.slot(LOCAL, a_tool(), asyncio.Event()) as queue_ms:
        assert queue_ms >= 0


async def test_a_call_that_is_promoted_and_cancelled_at_once_passes_its_slot_on():
    capacity = slots()
    first, second, third = (Caller(capacity, a_tool()) for _ in range(3))
    await first.inside.wait()
    await settle()
    first.let_go.set()
    second.cancelled.set()
    with pytest.raises(InvocationCancelled):
        await second.task
    await third.inside.wait()
    assert third.queue_ms is not None
    await third.end()


async def test_a_task_killed_while_it_waits_leaves_no_hole():
    capacity = slots()
    first, second, third = (Caller(capacity, a_tool()) for _ in range(3))
    await first.inside.wait()
    await settle()
    second.task.cancel()
    await asyncio.wait((second.task,))
    await first.end()
    await third.inside.wait()
    assert second.task.cancelled()
    await third.end()


async def test_a_tool_runs_no_more_often_than_its_concurrency():
    capacity = slots(count=4)
    first, second = (Caller(capacity, a_tool("one", concurrency=1)) for _ in range(2))
    other = Caller(capacity, a_tool("other"))
    await first.inside.wait()
    await other.inside.wait()
    assert not second.inside.is_set()
    await first.end()
    await second.inside.wait()
    await second.end()
    await other.end()


async def test_many_calls_never_hold_more_than_the_slots():
    capacity = slots(count=3, queue_length=100)
    inside, most = 0, 0

    async def call():
        nonlocal inside, most
        async with capacity.slot(LOCAL, a_tool(), asyncio.Event()):
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= 1

    async with asyncio.TaskGroup() as group:
        for _ in range(60):
            group.create_task(call())
    assert (inside, most) == (0, 3)


@pytest.mark.parametrize("seconds", [0.12, 0.03, 0.0, -1.0])
async def test_a_call_whose_deadline_comes_first_ends_in_time_and_nothing_ran(seconds):
    capacity = slots()
    first = Caller(capacity, a_tool())
    await first.inside.wait()
    deadline = time.monotonic() + seconds
    late = Caller(capacity, a_tool(), deadline)
    with pytest.raises(InvocationError) as caught:
        await late.task
    assert seconds < 0.1 or time.monotonic() < deadline
    detail = caught.value.detail
    assert (detail.code, detail.effect, detail.retryable) == (ErrorCode.TIMEOUT, EffectState.NONE, True)
    assert "a slot came free; nothing ran" in detail.message
    assert detail.retry_after_ms >= 100
    assert not late.inside.is_set()
    third = Caller(capacity, a_tool())
    await first.end()
    await third.inside.wait()
    await third.end()


async def test_a_deadline_beyond_the_queues_own_bound_changes_nothing():
    capacity = slots(timeout=0.01)
    first = Caller(capacity, a_tool())
    await first.inside.wait()
    with pytest.raises(InvocationError) as caught:
        await Caller(capacity, a_tool(), time.monotonic() + 60).task
    assert caught.value.detail.code is ErrorCode.OVERLOADED
    await first.end()


async def test_a_slot_that_comes_free_before_the_deadline_is_taken():
    capacity = slots()
    first = Caller(capacity, a_tool())
    await first.inside.wait()
    second = Caller(capacity, a_tool(), time.monotonic() + 20)
    await settle()
    await first.end()
    await second.inside.wait()
    await second.end()


async def test_a_call_whose_tool_is_at_its_own_bound_is_held_to_its_deadline_too():
    capacity = slots(count=4)
    first = Caller(capacity, a_tool(concurrency=1))
    await first.inside.wait()
    with pytest.raises(InvocationError) as caught:
        await Caller(capacity, a_tool(concurrency=1), time.monotonic() + 0.06).task
    assert caught.value.detail.code is ErrorCode.TIMEOUT
    await first.end()
