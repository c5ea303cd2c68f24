"""What the server asks a launcher for and hears from it; descriptors that nobody takes any more are not left open."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from executor.sandbox.native import wire
from executor.sandbox.native.channel import MOST_PLANS, Channel, LauncherDied
from executor.sandbox.native.plan import Rlimits, SandboxPlan

PLAN = SandboxPlan(
    image="host",
    workspace_bytes=1,
    workspace_inodes=1,
    tmp_bytes=1,
    tmp_inodes=1,
    rlimits=Rlimits(open_files=1, file_bytes=1),
    cgroup=(),
)


@dataclass
class Line:
    """A channel, and the launcher's end of it, which a test speaks for."""

    channel: Channel
    launcher: Any
    told: list[tuple[str, str, str]] = field(default_factory=list)
    """Of templates: image, name, why not."""

    def orders(self) -> list[Any]:
        """What the launcher was asked for since the last time, without what the plans are."""
        heard = []
        with contextlib.suppress(BlockingIOError):
            while True:
                heard.append(wire.unpacked(wire.receive(self.launcher)[0]))
        return [order[:2] if order[0] == "plan" else order for order in heard]


@pytest.fixture
async def line() -> AsyncIterator[Line]:
    ours, theirs = wire.pair()
    ours.setblocking(False)  # noqa: FBT003
    theirs.setblocking(False)  # noqa: FBT003
    told: list[tuple[str, str, str]] = []
    channel = Channel(lambda *words: told.append(words))
    channel._socket = ours
    asyncio.get_running_loop().add_reader(ours.fileno(), channel._hear)
    with contextlib.closing(theirs):
        yield Line(channel, theirs, told)
    await channel.stop()


@pytest.fixture
def passed() -> Iterator[tuple[int, int]]:
    """What the launcher passes: a control socket and a pidfd, as far as the channel can tell."""
    fds = (os.open(os.devnull, os.O_RDONLY), os.open(os.devnull, os.O_RDONLY))
    yield fds
    for fd in fds:
        if is_open(fd):
            os.close(fd)


async def asked(line: Line) -> asyncio.Task[tuple[int, int]]:
    task = asyncio.create_task(line.channel.build(7, PLAN))
    await asyncio.sleep(0)
    return task


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


# --- descriptors ----------------------------------------------------------------------------------------------------


async def test_whoever_asked_gets_the_descriptors(line, passed):
    task = await asked(line)
    line.channel._take("built 7", passed)
    assert await task == passed
    assert all(map(is_open, passed))


async def test_a_caller_who_went_away_before_the_answer_leaves_none_open(line, passed):
    task = await asked(line)
    task.cancel()
    await asyncio.wait((task,))
    line.channel._take("built 7", passed)
    assert not any(map(is_open, passed))


async def test_a_caller_who_goes_away_between_the_answer_and_hearing_of_it_leaves_none_open(line, passed):
    task = await asked(line)
    line.channel._take("built 7", passed)
    task.cancel()
    await asyncio.wait((task,))
    assert task.cancelled()
    assert not any(map(is_open, passed))


async def test_what_nobody_asked_for_is_closed(line, passed):
    line.channel._take("built 8", passed)
    assert not any(map(is_open, passed))


async def test_a_failure_is_told_with_the_launchers_reason(line):
    task = await asked(line)
    wire.say(line.launcher, "failed", 7, "no room: for anything")
    with pytest.raises(OSError, match=r"^no room: for anything$"):
        await task


# --- asking ---------------------------------------------------------------------------------------------------------


async def test_a_plan_is_told_once_and_known_by_its_number(line):
    other = replace(PLAN, image="data")
    tasks = [asyncio.create_task(line.channel.build(n, plan)) for n, plan in enumerate((PLAN, PLAN, other, PLAN))]
    await asyncio.sleep(0)
    assert line.orders() == [
        ("plan", 0),
        ("build", 0, 0),
        ("build", 1, 0),
        ("plan", 1),
        ("build", 2, 1),
        ("build", 3, 0),
    ]
    assert line.channel.building == 4
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def test_a_plan_that_fell_out_of_memory_is_told_again(line):
    plans = [replace(PLAN, tmp_bytes=n + 2) for n in range(MOST_PLANS)]
    numbers = []
    for plan in plans:
        numbers.append(line.channel._known(plan))
        line.orders()
    assert sorted(numbers) == list(range(MOST_PLANS))
    assert line.channel._known(plans[3]) == 3
    assert line.orders() == []
    line.channel._known(PLAN)
    line.channel._known(plans[3])
    assert [order[0] for order in line.orders()] == ["plan", "plan"]


async def test_all_that_are_let_go_at_one_turn_are_one_packet(line):
    tasks = [asyncio.create_task(line.channel.release(n)) for n in (3, 5)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert line.orders() == [("release", (3, 5))]
    wire.say(line.launcher, "released", 5)
    wire.say(line.launcher, "released", 3)
    done, _ = await asyncio.wait(tasks, timeout=10)
    assert len(done) == 2


async def test_a_launcher_that_is_too_busy_to_listen_neither_loses_an_order_nor_the_caller(line):
    """Its socket holds so many packets and no more."""
    count = 2_000
    building = [asyncio.create_task(line.channel.build(n, PLAN)) for n in range(count)]
    await asyncio.sleep(0)
    assert [task for task in building if task.done()] == []
    releasing = asyncio.create_task(line.channel.release(count))
    heard: list[Any] = []
    async with asyncio.timeout(10):
        while len(heard) < count + 2:
            await asyncio.sleep(0)
            heard += line.orders()
    assert heard == [("plan", 0), *(("build", n, 0) for n in range(count)), ("release", (count,))]
    for n in range(count):
        line.channel._take(f"failed {n} enough", ())
    line.channel._take(f"released {count}", ())
    await asyncio.wait((*building, releasing))
    assert line.channel.building == 0


# --- hearing --------------------------------------------------------------------------------------------------------


async def test_a_template_is_there_once_it_is_told_and_until_it_is_told_otherwise(line):
    assert not line.channel.has_template("data", "python")
    line.channel._take("template data/python", ())
    assert line.channel.has_template("data", "python")
    line.channel._take("template data/python it ended", ())
    assert not line.channel.has_template("data", "python")
    assert line.channel.templates == {"data/python": "it ended"}
    assert line.told == [("data", "python", ""), ("data", "python", "it ended")]


async def test_a_reason_may_hold_bytes_that_are_no_utf8(line):
    wire.send(line.launcher, b"template data/python cannot read \xff\xfe")
    async with asyncio.timeout(10):
        while not line.told:  # noqa: ASYNC110 - the loop hears it
            await asyncio.sleep(0)
    assert line.told == [("data", "python", "cannot read \udcff\udcfe")]


async def test_when_the_launcher_goes_whoever_waits_is_told(line):
    building = await asked(line)
    releasing = asyncio.create_task(line.channel.release(3))
    await asyncio.sleep(0)
    line.launcher.close()
    with pytest.raises(LauncherDied, match="went away"):
        await asyncio.wait_for(building, 10)
    await asyncio.wait_for(releasing, 10)
    assert not line.channel.alive
    assert line.channel.building == 0
    await line.channel.release(4)


async def test_what_the_launcher_said_before_it_went_is_heard(line):
    task = await asked(line)
    line.orders()
    wire.say(line.launcher, "failed", 7, "no room")
    line.launcher.close()
    with pytest.raises(OSError, match="no room"):
        await asyncio.wait_for(task, 10)
    assert line.channel.building == 0


async def test_an_order_that_finds_the_launcher_gone_is_answered_so(line):
    line.channel._known(PLAN)
    line.orders()
    wire.say(line.launcher, "template", "data/python")
    line.launcher.close()
    with pytest.raises(LauncherDied):
        await asyncio.wait_for(line.channel.build(7, PLAN), 10)
    assert line.channel.has_template("data", "python"), "its last words were heard"
    assert line.channel.building == 0
    with pytest.raises(LauncherDied, match="is gone"):
        await line.channel.build(8, PLAN)
    assert line.channel.building == 0
