import asyncio
from dataclasses import dataclass, field

import pytest

from executor.ingress.errors import Draining
from executor.ingress.feed import SILENT
from executor.ingress.registry import LOG_COUNT, LOG_SECONDS, Registry
from executor.model.errors import Unavailable
from executor.model.invocation import LOCAL, Invocation, Principal
from executor.model.outcome import Outcome, State
from executor.sandbox.recorder import Observer


@dataclass
class Work:
    """A pipeline whose calls end when they are told to, or when `free` is set."""

    free: asyncio.Event = field(default_factory=asyncio.Event)
    ended: list[str] = field(default_factory=list)
    error: Exception | None = None

    async def execute(self, invocation: Invocation, observer: Observer, cancelled: asyncio.Event) -> Outcome:
        del observer
        waiters = [asyncio.ensure_future(event.wait()) for event in (self.free, cancelled)]
        await asyncio.wait(waiters, return_when=asyncio.FIRST_COMPLETED)
        for waiter in waiters:
            waiter.cancel()
        await asyncio.sleep(0)  # what there is to tidy up
        self.ended.append(invocation.invocation_id)
        if self.error:
            raise self.error
        state = State.CANCELLED if cancelled.is_set() else State.COMPLETED
        return Outcome(invocation_id=invocation.invocation_id, state=state, tool=invocation.tool)


def call(number: int, principal: Principal = LOCAL, call_id: str | None = None) -> Invocation:
    return Invocation(
        invocation_id=f"inv_{number}", tool="echo", arguments_json="{}", principal=principal, call_id=call_id
    )


async def outcome_of(registry: Registry, invocation: Invocation) -> Outcome:
    async with registry.running(invocation, SILENT) as running:
        return await running.outcome()


async def test_an_outcome_comes_back_and_nothing_stays() -> None:
    work = Work()
    work.free.set()
    registry = Registry(work)
    assert (await outcome_of(registry, call(1))).state is State.COMPLETED
    assert registry.count == 0


async def test_who_goes_away_waits_until_the_pipeline_has_finished() -> None:
    work = Work()
    registry = Registry(work)
    caller = asyncio.create_task(outcome_of(registry, call(1)))
    await asyncio.sleep(0)
    assert registry.count == 1
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert work.ended == ["inv_1"]
    assert registry.count == 0


async def test_who_is_cancelled_twice_still_leaves_the_pipeline_its_time() -> None:
    work = Work()
    registry = Registry(work)
    caller = asyncio.create_task(outcome_of(registry, call(1)))
    await asyncio.sleep(0)
    caller.cancel()
    await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    await registry.drain(grace_seconds=5)
    assert work.ended == ["inv_1"]


async def test_a_block_that_breaks_ends_its_invocation() -> None:
    work = Work()
    registry = Registry(work)
    with pytest.raises(BrokenPipeError):
        async with registry.running(call(1), SILENT):
            raise BrokenPipeError
    assert work.ended == ["inv_1"]


async def test_what_the_pipeline_raises_reaches_the_caller() -> None:
    work = Work(error=Unavailable("the ledger is full"))
    work.free.set()
    with pytest.raises(Unavailable, match="the ledger is full"):
        await outcome_of(Registry(work), call(1))


async def test_an_invocation_is_found_by_either_id_and_by_its_own_tenant_alone() -> None:
    work = Work()
    registry, stranger = Registry(work), Principal(name="eve", tenant="eve")
    async with (
        registry.running(call(1, call_id="a"), SILENT) as first,
        registry.running(call(2, call_id="a"), SILENT) as second,
        registry.running(call(3, stranger, call_id="a"), SILENT),
        registry.running(call(4), SILENT),
    ):
        assert registry.find(LOCAL, call_id="a") == (first, second)
        assert registry.find(LOCAL, invocation_id="inv_2") == (second,)
        assert registry.find(LOCAL, invocation_id="inv_3") == ()
        assert registry.find(LOCAL, call_id="inv_1") == ()
        await registry.cancel((first, second))
        assert [one.task.result().state for one in (first, second)] == [State.CANCELLED] * 2
        assert registry.count == 2


async def test_a_drain_waits_cancels_and_takes_nothing_new() -> None:
    work = Work()
    registry = Registry(work)
    caller = asyncio.create_task(outcome_of(registry, call(1)))
    await asyncio.sleep(0)
    draining = asyncio.create_task(registry.drain(grace_seconds=0.01))
    await asyncio.sleep(0)
    with pytest.raises(Draining, match="nothing ran"):
        await outcome_of(registry, call(2))
    await draining
    assert (await caller).state is State.CANCELLED


async def test_a_drain_does_not_wait_longer_than_it_must() -> None:
    work = Work()
    registry = Registry(work)
    caller = asyncio.create_task(outcome_of(registry, call(1)))
    await asyncio.sleep(0)
    work.free.set()
    async with asyncio.timeout(5):
        await registry.drain(grace_seconds=600)
    assert (await caller).state is State.COMPLETED


async def test_every_end_is_logged_once_and_at_the_latest_by_the_drain(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    work = Work()
    work.free.set()
    registry = Registry(work)
    for number in range(3 * LOG_COUNT):
        await outcome_of(registry, call(number))
    await registry.drain(grace_seconds=0)
    assert [str(record.msg).count("invocation ended") for record in caplog.records] == [1] * (3 * LOG_COUNT)


async def test_an_end_is_logged_without_any_drain(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    work = Work()
    work.free.set()
    registry = Registry(work)
    async with asyncio.TaskGroup() as group:
        for number in range(2 * LOG_COUNT):
            group.create_task(outcome_of(registry, call(number)))
    async with asyncio.timeout(10):
        while len(caplog.records) < 2 * LOG_COUNT:  # noqa: ASYNC110 - a log has no event to wait for
            await asyncio.sleep(LOG_SECONDS)
