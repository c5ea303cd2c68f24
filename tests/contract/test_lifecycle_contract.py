"""Open, run once, collect, close; in any order that a caller in trouble may come to."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from executor.model.errors import ErrorCode, InvocationError
from executor.model.run import End, RunReport, SandboxSpec
from executor.sandbox.contract import Backend, Sandbox
from tests.support.bench import Bench, Heard, process
from tests.support.census import census, leaked, processes_with
from tests.support.programs import Programs


@asynccontextmanager
async def running(sandbox: Sandbox, programs: Programs, word: str) -> AsyncIterator[asyncio.Task[RunReport]]:
    """A run that has begun: its tree sleeps for `word` seconds. Ended with the block, whatever the test finds."""
    heard = Heard()
    task = asyncio.ensure_future(sandbox.run(process(programs.tree(word)), heard))
    try:
        await asyncio.wait_for(heard.first.wait(), 10)
        yield task
    finally:
        task.cancel()
        await asyncio.wait((task,))
        if not task.cancelled():
            task.exception()


def names_below(directory: Path) -> list[Path]:
    return sorted(directory.rglob("*"))


async def test_cancelling_a_run_kills_its_tree_before_it_returns(bench: Bench, programs: Programs):
    async with bench.sandbox() as sandbox, running(sandbox, programs, "61.101") as run:
        began = time.monotonic()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert processes_with("61.101") == []
        assert time.monotonic() - began < 1.0
        await sandbox.close()
        await sandbox.close()


async def test_a_run_may_be_cancelled_before_it_has_begun(bench: Bench, programs: Programs):
    async with bench.sandbox() as sandbox:
        run = asyncio.ensure_future(sandbox.run(process(programs.tree("61.102")), Heard()))
        await asyncio.sleep(0)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert processes_with("61.102") == []


async def test_the_tree_is_dead_when_a_run_returns(bench: Bench, programs: Programs):
    result = await bench.run(programs.leave_behind("61.103"))
    assert result.report.end is End.EXITED
    assert processes_with("61.103") == []


async def test_closing_without_a_run_is_enough(bench: Bench):
    async with bench.sandbox() as sandbox:
        await sandbox.close()
        with pytest.raises(InvocationError) as refusal:
            await sandbox.collect(("*",), ())
    assert refusal.value.detail.code is ErrorCode.SANDBOX_UNAVAILABLE


async def test_a_sandbox_runs_only_once(bench: Bench, programs: Programs):
    async with bench.sandbox() as sandbox:
        assert (await sandbox.run(process(programs.exit(0)), Heard())).exit_code == 0
        with pytest.raises(RuntimeError, match="run"):
            await sandbox.run(process(programs.exit(0)), Heard())


async def test_a_second_run_beside_the_first_is_refused_and_does_not_disturb_it(bench: Bench, programs: Programs):
    async with bench.sandbox() as sandbox, running(sandbox, programs, "0.4") as first:
        with pytest.raises(RuntimeError, match="run"):
            await sandbox.run(process(programs.exit(1)), Heard())
        assert (await first).exit_code == 0


async def test_collecting_while_the_command_runs_is_refused(bench: Bench, programs: Programs):
    async with bench.sandbox() as sandbox, running(sandbox, programs, "0.4") as run:
        with pytest.raises(RuntimeError, match="run"):
            await sandbox.collect(("*",), ())
        assert (await run).exit_code == 0


async def test_a_run_after_close_is_refused(bench: Bench, programs: Programs):
    async with bench.sandbox() as sandbox:
        await sandbox.close()
        with pytest.raises(InvocationError) as refusal:
            await sandbox.run(process(programs.exit(0)), Heard())
    assert refusal.value.detail.code is ErrorCode.SANDBOX_UNAVAILABLE


async def test_closing_during_a_run_kills_its_tree_and_ends_the_run(bench: Bench, programs: Programs):
    async with bench.sandbox() as sandbox, running(sandbox, programs, "61.104") as run:
        await sandbox.close()
        assert processes_with("61.104") == []
        with pytest.raises(InvocationError) as ended:
            await asyncio.wait_for(run, 5)
    assert ended.value.detail.code is ErrorCode.SANDBOX_UNAVAILABLE


async def test_stop_closes_every_open_sandbox(backend: Backend, bench: Bench, programs: Programs):
    idle = await backend.open(bench.spec)
    busy = await backend.open(bench.spec)
    async with running(busy, programs, "61.105") as run:
        await backend.stop()
        assert processes_with("61.105") == []
        with pytest.raises(InvocationError):
            await asyncio.wait_for(run, 5)
    with pytest.raises(InvocationError):
        await idle.run(process(programs.exit(0)), Heard())
    await idle.close()
    await busy.close()
    await backend.stop()


async def test_a_stopped_backend_opens_nothing(backend: Backend, spec: SandboxSpec):
    await backend.stop()
    with pytest.raises(InvocationError) as refusal:
        await backend.open(spec)
    assert refusal.value.detail.code is ErrorCode.SANDBOX_UNAVAILABLE


async def test_an_unknown_image_is_refused_by_name(backend: Backend, spec: SandboxSpec):
    with pytest.raises(InvocationError) as refusal:
        await backend.open(replace(spec, image="no-such-image"))
    assert refusal.value.detail.code is ErrorCode.SANDBOX_UNAVAILABLE
    assert "no-such-image" in refusal.value.detail.message


async def test_a_network_that_the_backend_cannot_give_is_refused_by_name(backend: Backend, spec: SandboxSpec):
    with pytest.raises(InvocationError) as refusal:
        await backend.open(replace(spec, network="no-such-network"))
    assert refusal.value.detail.code is ErrorCode.SANDBOX_UNAVAILABLE
    assert "no-such-network" in refusal.value.detail.message


async def test_the_backend_knows_its_images_and_their_programs(backend: Backend):
    assert "host" in backend.images()
    assert backend.has_program("host", "cat")
    assert backend.has_program("host", "/bin/cat")
    assert not backend.has_program("host", "no-such-program")
    assert not backend.has_program("host", "/no/such/program")
    assert not backend.has_program("no-such-image", "cat")


@pytest.mark.not_of("native-pooled")  # what is parked comes and goes meanwhile; the probes of a server count it
async def test_a_closed_sandbox_leaves_nothing_behind_while_the_backend_runs_on(
    bench: Bench, programs: Programs, tmp_path: Path
):
    async def hostile(number: int) -> None:
        await bench.run(programs.tree(f"61.2{number}"), wall_seconds=0.2)
        await bench.run(programs.leave_behind(f"61.3{number}"))
        async with bench.sandbox() as sandbox, running(sandbox, programs, f"61.4{number}") as run:
            run.cancel()

    await hostile(0)  # what the backend makes once and keeps
    before, state_before = census(str(tmp_path)), names_below(tmp_path)
    for number in range(1, 4):
        await hostile(number)
    assert await asyncio.to_thread(leaked, before) == {}
    assert names_below(tmp_path) == state_before
