"""Descriptors on their way from the launcher: whoever does not take them any more leaves none open."""

import asyncio
import os
import socket
from collections.abc import Iterator

import pytest

from executor.sandbox.native.channel import Channel
from executor.sandbox.native.plan import Rlimits, SandboxPlan

PLAN = SandboxPlan(
    sandbox_id=7,
    image="host",
    workspace_bytes=1,
    workspace_inodes=1,
    tmp_bytes=1,
    tmp_inodes=1,
    rlimits=Rlimits(open_files=1, file_bytes=1),
    cgroup={},
)


@pytest.fixture
def channel() -> Iterator[Channel]:
    ours, theirs = socket.socketpair()
    channel = Channel()
    channel._socket = ours
    with ours, theirs:
        yield channel


@pytest.fixture
def passed() -> Iterator[list[int]]:
    """What the launcher passes: a control socket and a pidfd, as far as the channel can tell."""
    fds = [os.open(os.devnull, os.O_RDONLY) for _ in range(2)]
    yield fds
    for fd in fds:
        if is_open(fd):
            os.close(fd)


async def asked(channel: Channel) -> asyncio.Task[tuple[int, int]]:
    task = asyncio.create_task(channel.build(PLAN))
    await asyncio.sleep(0)
    return task


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


async def test_whoever_asked_gets_the_descriptors(channel, passed):
    task = await asked(channel)
    channel._take({"built": 7}, passed)
    assert await task == tuple(passed)
    assert all(map(is_open, passed))


async def test_a_caller_who_went_away_before_the_answer_leaves_none_open(channel, passed):
    task = await asked(channel)
    task.cancel()
    await asyncio.wait((task,))
    channel._take({"built": 7}, passed)
    assert not any(map(is_open, passed))


async def test_a_caller_who_goes_away_between_the_answer_and_hearing_of_it_leaves_none_open(channel, passed):
    task = await asked(channel)
    channel._take({"built": 7}, passed)
    task.cancel()
    await asyncio.wait((task,))
    assert task.cancelled()
    assert not any(map(is_open, passed))


async def test_a_failure_is_told_with_the_launchers_reason(channel):
    task = await asked(channel)
    channel._take({"failed": 7, "reason": "no room"}, [])
    with pytest.raises(OSError, match="no room"):
        await task
