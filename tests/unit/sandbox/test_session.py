"""What `Unless` does where the event and the work meet; the session as a whole is tested through the pipeline."""

import asyncio

import pytest

from executor.model.errors import InvocationCancelled
from executor.sandbox.session import Unless


async def forever(begun, unwound=None, result=None):
    try:
        begun.set()
        await asyncio.get_running_loop().create_future()
    except asyncio.CancelledError:
        if unwound is not None:
            await asyncio.sleep(0)
            unwound.set()
        if result is not None:
            return result
        raise


async def through(cancelled, work):
    async with Unless(cancelled) as unless:
        return await unless.work(work)


async def answer(value):
    await asyncio.sleep(0)
    return value


async def test_work_that_ends_first_gives_its_result():
    assert await through(asyncio.Event(), answer(3)) == 3


async def test_several_works_are_watched_by_one_event():
    async with Unless(asyncio.Event()) as unless:
        assert [await unless.work(answer(number)) for number in range(3)] == [0, 1, 2]


async def test_the_event_interrupts_the_work_and_waits_until_it_has_unwound():
    cancelled, begun, unwound = asyncio.Event(), asyncio.Event(), asyncio.Event()
    call = asyncio.create_task(through(cancelled, forever(begun, unwound)))
    await begun.wait()
    cancelled.set()
    with pytest.raises(InvocationCancelled):
        await call
    assert unwound.is_set()


async def test_work_that_ends_all_the_same_gives_its_result_and_the_task_goes_on():
    cancelled, begun = asyncio.Event(), asyncio.Event()

    async def session():
        result = await through(cancelled, forever(begun, result="told"))
        await asyncio.sleep(0)
        return result, asyncio.current_task().cancelling()

    call = asyncio.create_task(session())
    await begun.wait()
    cancelled.set()
    assert await call == ("told", 0)


async def test_the_task_goes_on_after_an_interruption():
    cancelled, begun = asyncio.Event(), asyncio.Event()

    async def session():
        with pytest.raises(InvocationCancelled):
            await through(cancelled, forever(begun))
        return await answer("went on"), asyncio.current_task().cancelling()

    call = asyncio.create_task(session())
    await begun.wait()
    cancelled.set()
    assert await call == ("went on", 0)


async def test_work_of_an_event_that_is_set_already_never_begins():
    cancelled, begun = asyncio.Event(), asyncio.Event()
    cancelled.set()
    with pytest.raises(InvocationCancelled):
        await through(cancelled, forever(begun))
    assert not begun.is_set()


async def test_an_event_between_two_works_stops_the_second():
    cancelled, begun = asyncio.Event(), asyncio.Event()
    async with Unless(cancelled) as unless:
        await unless.work(answer(1))
        cancelled.set()
        await answer(2)
        with pytest.raises(InvocationCancelled):
            await unless.work(forever(begun))
    assert not begun.is_set()


async def test_a_task_that_somebody_else_cancels_is_cancelled():
    begun = asyncio.Event()
    call = asyncio.create_task(through(asyncio.Event(), forever(begun)))
    await begun.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_an_error_of_the_work_is_its_own_and_nothing_keeps_watching():
    async def broken():
        await asyncio.sleep(0)
        raise ZeroDivisionError

    before = asyncio.all_tasks()
    with pytest.raises(ZeroDivisionError):
        await through(asyncio.Event(), broken())
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before
