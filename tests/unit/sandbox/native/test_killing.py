"""How a tree is made to die. The `init` is a child of this process, its groups are counted."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from executor.sandbox.native import killing
from executor.sandbox.native.cgroups import CounterFiles, Counters
from executor.sandbox.native.plan import Hierarchy

WAIT_SECONDS = 10
STUBBORN = "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); sys.stdin.read()"


@dataclass
class Init:
    process: subprocess.Popen[bytes]
    pidfd: int
    dead: "asyncio.Future[None]"


def started() -> subprocess.Popen[bytes]:
    """Lives until its stdin is closed."""
    process = subprocess.Popen([sys.executable, "-c", STUBBORN], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def ended(process: subprocess.Popen[bytes]) -> int:
    """Its status, after it was let go where it lives."""
    process.communicate()
    return process.returncode


@pytest.fixture
async def init() -> AsyncIterator[Init]:
    loop = asyncio.get_running_loop()
    process = await asyncio.to_thread(started)
    pidfd = os.pidfd_open(process.pid)
    dead: asyncio.Future[None] = loop.create_future()

    def die() -> None:
        loop.remove_reader(pidfd)
        if not dead.done():
            dead.set_result(None)

    loop.add_reader(pidfd, die)
    yield Init(process, pidfd, dead)
    loop.remove_reader(pidfd)
    ended(process)
    os.close(pidfd)


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Counters]:
    """Of the sandbox `s`: files that take what is written to them. What cannot be written to stands for no cgroup.kill,
    because in a directory of ordinary files one would be made.
    """
    (tmp_path / "s" / "cgroup.kill").mkdir(parents=True)
    for name in ("cpu.cfs_quota_us", "cgroup.procs"):
        (tmp_path / "s" / name).touch()
    hierarchy = Hierarchy(version=1, controllers=("cpu",), base=str(tmp_path))
    with contextlib.closing(Counters(CounterFiles([hierarchy]), "s")) as counters:
        yield counters


@pytest.fixture
async def member(tmp_path: Path, group: Counters) -> AsyncIterator[subprocess.Popen[bytes]]:
    """A process of the group beside its init."""
    process = await asyncio.to_thread(started)
    (tmp_path / "s" / "cgroup.procs").write_text(f"{process.pid}\n")
    yield process
    ended(process)


def is_lifted(tmp_path: Path) -> bool:
    return (tmp_path / "s" / "cpu.cfs_quota_us").read_text() == "-1"


async def test_an_init_that_said_that_it_ends_and_does_is_sent_no_signal(init, group, tmp_path):
    asyncio.get_running_loop().call_soon(init.dead.set_result, None)
    await asyncio.wait_for(killing.kill(init.pidfd, init.dead, group, at_once=False), WAIT_SECONDS)
    assert init.process.poll() is None, "it would be dead"
    assert not is_lifted(tmp_path)
    assert ended(init.process) == 0


async def test_a_tree_that_is_dead_is_left_alone(init, group):
    init.dead.set_result(None)
    await asyncio.wait_for(killing.kill(init.pidfd, init.dead, group, at_once=True), WAIT_SECONDS)
    assert ended(init.process) == 0


async def test_an_init_that_said_that_it_ends_and_does_not_is_killed(init, group, tmp_path):
    await asyncio.wait_for(killing.kill(init.pidfd, init.dead, group, at_once=False), WAIT_SECONDS)
    assert init.dead.done()
    assert ended(init.process) == -signal.SIGKILL
    assert is_lifted(tmp_path), "to die takes processor time"


async def test_a_tree_that_is_to_end_at_once_is_killed(init, group):
    await asyncio.wait_for(killing.kill(init.pidfd, init.dead, group, at_once=True), WAIT_SECONDS)
    assert ended(init.process) == -signal.SIGKILL


async def test_an_init_that_was_reaped_meanwhile_is_no_error(init, group):
    init.process.kill()
    ended(init.process)
    await asyncio.wait_for(killing.kill(init.pidfd, init.dead, group, at_once=True), WAIT_SECONDS)
    assert init.dead.done()


async def test_members_of_a_tree_that_does_not_die_are_killed_one_by_one(init, group, member):
    """`dead` stands for an init that waits until the last of them is gone."""
    dead: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    killed = asyncio.create_task(killing.kill(init.pidfd, dead, group, at_once=True))
    async with asyncio.timeout(WAIT_SECONDS):
        while member.poll() is None:  # noqa: ASYNC110 - the task above kills it
            await asyncio.sleep(0.001)
    dead.set_result(None)
    await killed
    assert member.returncode == -signal.SIGKILL


async def test_a_kernel_that_kills_the_tree_by_itself_is_asked_to(init, group, member, tmp_path):
    order = tmp_path / "s" / "cgroup.kill"
    order.rmdir()
    dead: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    killed = asyncio.create_task(killing.kill(init.pidfd, dead, group, at_once=True))
    async with asyncio.timeout(WAIT_SECONDS):
        while not order.exists() or order.read_text() != "1":  # noqa: ASYNC110 - the task above writes it
            await asyncio.sleep(0.001)
    dead.set_result(None)
    await killed
    assert ended(member) == 0, "not one by one"
