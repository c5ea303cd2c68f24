"""What is left of dead sandboxes is cleared away later, a bounded number of them at a time."""

import asyncio

from executor.sandbox.native.reaper import Reaper

WAIT_SECONDS = 10


class Clearing:
    """Clears a thing away when it is let."""

    def __init__(self, most: int = 64) -> None:
        self.begun: list[str] = []
        self.cleared: list[str] = []
        self.begins, self._leave = asyncio.Event(), asyncio.Event()
        self.reaper = Reaper(self._clear, most)

    async def _clear(self, one: str) -> None:
        self.begun.append(one)
        self.begins.set()
        await self._leave.wait()
        self.cleared.append(one)

    def let(self) -> None:
        self._leave.set()


async def turns() -> None:
    """Whatever can happen without time has happened."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_nothing_is_cleared_away_at_once_so_that_the_answer_leaves_first():
    clearing = Clearing()
    clearing.reaper.take("a")
    await turns()
    assert clearing.begun == []
    assert clearing.reaper.backlog == 1
    await asyncio.wait_for(clearing.begins.wait(), WAIT_SECONDS)
    clearing.let()
    await clearing.reaper.drained()
    assert clearing.cleared == ["a"]


async def test_those_that_come_meanwhile_are_cleared_away_at_one_wake_up():
    clearing = Clearing()
    for name in "abc":
        clearing.reaper.take(name)
    await asyncio.wait_for(clearing.begins.wait(), WAIT_SECONDS)
    await turns()
    assert clearing.begun == ["a", "b", "c"]
    clearing.let()
    await clearing.reaper.drained()


async def test_there_is_room_while_the_backlog_is_below_its_bound():
    clearing = Clearing(most=3)
    clearing.reaper.take("a")
    clearing.reaper.take("b")
    await asyncio.wait_for(clearing.reaper.room(), WAIT_SECONDS)
    assert clearing.cleared == []
    clearing.let()
    await clearing.reaper.drained()


async def test_who_asks_for_room_waits_while_as_many_are_cleared_away_as_may_be():
    clearing = Clearing(most=2)
    clearing.reaper.take("a")
    clearing.reaper.take("b")
    waiting = [asyncio.create_task(clearing.reaper.room()) for _ in range(2)]
    await asyncio.wait_for(clearing.begins.wait(), WAIT_SECONDS)
    await turns()
    assert [one.done() for one in waiting] == [False, False]
    clearing.let()
    await asyncio.wait_for(asyncio.wait(waiting), WAIT_SECONDS)
    assert len(clearing.cleared) >= 1


async def test_drained_waits_for_all_and_for_no_timer():
    clearing = Clearing()
    clearing.let()
    clearing.reaper.take("a")
    clearing.reaper.take("b")
    draining = asyncio.create_task(clearing.reaper.drained())
    await turns()
    assert draining.done()
    assert clearing.cleared == ["a", "b"]
    assert clearing.reaper.backlog == 0


async def test_drained_waits_for_what_comes_while_it_waits():
    clearing = Clearing()
    clearing.reaper.take("a")
    draining = asyncio.create_task(clearing.reaper.drained())
    await turns()
    clearing.reaper.take("b")
    clearing.let()
    await asyncio.wait_for(draining, WAIT_SECONDS)
    assert clearing.cleared == ["a", "b"]


async def test_nothing_to_clear_away_is_drained_at_once():
    await asyncio.wait_for(Clearing().reaper.drained(), WAIT_SECONDS)
