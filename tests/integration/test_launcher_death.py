"""The launcher of the native backend is killed: calls that run fail as the executor's fault, the next ones work."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator

import pytest

from executor.model.errors import ErrorCode, InvocationError
from executor.model.limits import Limits
from executor.model.run import End, Process, SandboxSpec
from executor.sandbox.native.backend import NativeBackend, NativeSettings
from executor.sandbox.native.pool import PoolSettings
from tests.support.backends import start_or_skip
from tests.support.census import census, leaked, processes_with

WAIT_SECONDS = 10
SPEC = SandboxSpec(image="host", limits=Limits())


@pytest.fixture(params=[0, 2], ids=["on demand", "pooled"])
async def backend(tmp_path, request) -> AsyncIterator[NativeBackend]:
    before = await asyncio.to_thread(census, str(tmp_path))
    backend = NativeBackend(NativeSettings(state_dir=tmp_path, pool=PoolSettings(most=request.param), launchers=1))
    await start_or_skip(backend)
    yield backend
    await backend.stop()
    assert await asyncio.to_thread(leaked, before, WAIT_SECONDS) == {}


async def run(backend: NativeBackend, *argv: str) -> End:
    sandbox = await backend.open(SPEC)
    try:
        return (await sandbox.run(Process(argv=argv, wall_seconds=30), lambda _stream, _data: None)).end
    finally:
        await sandbox.close()


def kill_launcher(backend: NativeBackend) -> None:
    (channel,) = backend._channels
    os.kill(channel._process.pid, signal.SIGKILL)


async def test_a_call_that_runs_fails_and_its_processes_are_dead(backend):
    call = asyncio.create_task(run(backend, "sleep", "63.217"))
    async with asyncio.timeout(WAIT_SECONDS):
        while not processes_with("63.217"):  # noqa: ASYNC110 - a process of another namespace starts
            await asyncio.sleep(0.01)
    kill_launcher(backend)
    with pytest.raises(InvocationError) as failure:
        await asyncio.wait_for(call, WAIT_SECONDS)
    assert failure.value.detail.code is ErrorCode.SANDBOX_UNAVAILABLE
    assert processes_with("63.217") == []


async def test_the_next_calls_get_a_new_launcher(backend):
    assert await run(backend, "true") is End.EXITED
    process = backend._channels[0]._process
    kill_launcher(backend)
    await asyncio.to_thread(process.wait)
    async with asyncio.TaskGroup() as group:
        calls = [group.create_task(run(backend, "true")) for _ in range(4)]
    assert {call.result() for call in calls} == {End.EXITED}


async def test_the_sandboxes_of_another_launcher_go_on(tmp_path):
    backend = NativeBackend(NativeSettings(state_dir=tmp_path, pool=PoolSettings(most=0), launchers=2))
    await start_or_skip(backend)
    try:
        sandbox = await backend.open(SPEC)
        (other,) = set(backend._channels) - {backend._open[sandbox][0]}
        os.kill(other._process.pid, signal.SIGKILL)
        await asyncio.to_thread(other._process.wait)
        report = await sandbox.run(Process(argv=("true",), wall_seconds=30), lambda _stream, _data: None)
        assert report.end is End.EXITED
        await sandbox.close()
        calls = [await run(backend, "true") for _ in range(4)]
        assert set(calls) == {End.EXITED}
    finally:
        await backend.stop()


async def test_templates_are_there_again_after_their_launcher_was_killed(tmp_path):
    backend = NativeBackend(NativeSettings(state_dir=tmp_path, pool=PoolSettings(most=0), launchers=1))
    await start_or_skip(backend)
    try:
        await asyncio.wait_for(backend.templates_are_told(), WAIT_SECONDS)
        before = backend.templates()
        kill_launcher(backend)
        assert await run(backend, "true") is End.EXITED
        await asyncio.wait_for(backend.templates_are_told(), WAIT_SECONDS)
        assert backend.templates() == before
    finally:
        await backend.stop()
