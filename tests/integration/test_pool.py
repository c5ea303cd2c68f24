"""Parked sandboxes of the native backend: each serves one call, and serves it as one made on demand would."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from executor.model.limits import MIB, Limits
from executor.model.run import End, Process, SandboxSpec, StreamName
from executor.sandbox.native.backend import NativeBackend, NativeSettings
from executor.sandbox.native.pool import PoolSettings
from tests.support.backends import start_or_skip
from tests.support.census import census, leaked

WAIT_SECONDS = 10


@pytest.fixture
async def backend(tmp_path) -> AsyncIterator[NativeBackend]:
    before = await asyncio.to_thread(census, str(tmp_path))
    backend = NativeBackend(NativeSettings(state_dir=tmp_path, pool=PoolSettings(least=2, most=2), templates=False))
    await start_or_skip(backend)
    yield backend
    await backend.stop()
    assert await asyncio.to_thread(leaked, before, WAIT_SECONDS) == {}


async def run(backend: NativeBackend, script: str, limits: Limits | None = None) -> tuple[bytes, float]:
    """(stdout, set-up in ms)"""
    heard: list[bytes] = []
    limits = limits or Limits()
    sandbox = await backend.open(SandboxSpec(image="host", limits=limits))
    try:
        report = await sandbox.run(
            Process(argv=("sh", "-c", script), wall_seconds=limits.wall_seconds),
            lambda stream, data: heard.append(data) if stream is StreamName.STDOUT else None,
        )
    finally:
        await sandbox.close()
    assert (report.end, report.exit_code) == (End.EXITED, 0)
    return b"".join(heard), report.usage.setup_ms


async def parked(backend: NativeBackend, count: int) -> list[int]:
    """Numbers of the sandboxes that wait, once there are `count` of the default kind."""
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            waiting = [s.number for kind in backend._pool._classes.values() for s in kind.parked]
            if len(waiting) == count:
                return waiting
            await asyncio.sleep(0.005)


async def test_the_first_call_finds_nothing_parked_and_the_next_one_does(backend):
    await run(backend, "true")
    waiting = await parked(backend, 2)
    sandbox = await backend.open(SandboxSpec(image="host", limits=Limits()))
    assert sandbox.number == waiting[0]
    await sandbox.close()


async def test_an_outcome_tells_whether_its_sandbox_was_parked(backend):
    prepared = []
    for _ in range(2):
        sandbox = await backend.open(SandboxSpec(image="host", limits=Limits()))
        prepared.append(sandbox.isolation.prepared)
        await sandbox.close()
        await parked(backend, 2)
    assert prepared == ["on_demand", "pooled"]


async def test_a_kind_that_is_expected_serves_the_first_call_from_the_pool(backend):
    spec = SandboxSpec(image="host", limits=Limits())
    backend.expect([(spec, ("sh", "-c", "true"))])
    await parked(backend, 2)
    sandbox = await backend.open(spec)
    assert sandbox.isolation.prepared == "pooled"
    await sandbox.close()


async def test_a_burst_finds_what_the_last_one_needed_and_nobody_gets_anothers(tmp_path):
    backend = NativeBackend(NativeSettings(state_dir=tmp_path, pool=PoolSettings(least=1, most=16), templates=False))
    await start_or_skip(backend)
    spec = SandboxSpec(image="host", limits=Limits())
    try:
        first = [await backend.open(spec) for _ in range(6)]
        for sandbox in first:
            await sandbox.close()
        waiting = await parked(backend, 6)
        second = [await backend.open(spec) for _ in range(6)]
        assert [sandbox.isolation.prepared for sandbox in second] == ["pooled"] * 6
        assert {sandbox.number for sandbox in second} == set(waiting)
        for sandbox in second:
            await sandbox.close()
    finally:
        await backend.stop()


async def test_a_parked_sandbox_serves_one_call_and_is_replaced_by_a_new_one(backend):
    await run(backend, "true")
    seen: set[int] = set()
    for _ in range(4):
        waiting = await parked(backend, 2)
        assert not seen & {waiting[0]}
        seen.add(waiting[0])
        await run(backend, "echo secret > /tmp/left; echo secret > /workspace/left; echo secret > /dev/shm/left")
    await parked(backend, 2)
    listing, _ = await run(backend, "ls -A /tmp /workspace /dev/shm")
    assert b"left" not in listing


async def test_a_call_with_other_limits_gets_a_sandbox_made_for_them(backend):
    await run(backend, "true")
    await parked(backend, 2)
    size, _ = await run(backend, "df --output=size -k /workspace | tail -n 1", Limits(workspace_bytes=3 * MIB))
    assert int(size) == 3 * 1024


async def test_limits_that_the_server_watches_do_not_make_another_kind(backend):
    await run(backend, "true")
    waiting = await parked(backend, 2)
    limits = Limits(wall_seconds=2, cpu_seconds=1, output_bytes=100, text_bytes=50)
    sandbox = await backend.open(SandboxSpec(image="host", limits=limits))
    assert sandbox.number == waiting[0]
    assert sandbox.isolation.limits == limits
    await sandbox.close()


async def test_more_calls_than_are_parked_are_served_all_the_same(backend):
    await run(backend, "true")
    await parked(backend, 2)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(run(backend, f"echo {n}")) for n in range(12)]
    assert sorted(int(task.result()[0]) for task in tasks) == list(range(12))


async def test_a_parked_sandbox_that_has_died_is_not_handed_out(backend):
    await run(backend, "true")
    await parked(backend, 2)
    for kind in backend._pool._classes.values():
        for sandbox in kind.parked:
            os.kill(_pid(sandbox._pidfd), 9)
            await asyncio.wait_for(asyncio.shield(sandbox._dead), WAIT_SECONDS)
    assert (await run(backend, "echo alive"))[0] == b"alive\n"


def _pid(pidfd: int) -> int:
    with Path(f"/proc/self/fdinfo/{pidfd}").open() as info:
        return next(int(line.split()[1]) for line in info if line.startswith("Pid:"))
