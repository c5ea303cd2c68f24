"""What only the fake has; everything else it is held to by tests/contract."""

import asyncio
from collections.abc import Awaitable

import pytest

from executor.model.errors import ErrorCode, InvocationError, Unavailable
from executor.model.invocation import InputFile
from executor.model.limits import Limits
from executor.model.run import Collection, End, Process, RefusedFile, RunReport, SandboxSpec, StreamName
from executor.sandbox.fake import FakeBackend
from executor.sandbox.fake_collect import pick
from executor.sandbox.fake_machine import Call, Entry

SPEC = SandboxSpec(image="host", limits=Limits())


async def started(**settings: object) -> FakeBackend:
    backend = FakeBackend(**settings)
    await backend.start()
    return backend


async def run(backend: FakeBackend, *argv: str, files: tuple[InputFile, ...] = ()) -> tuple[RunReport, bytes, bytes]:
    heard = {stream: bytearray() for stream in StreamName}
    sandbox = await backend.open(SPEC)
    try:
        report = await sandbox.run(
            Process(argv=argv, files=files, wall_seconds=5), lambda stream, data: heard[stream].extend(data)
        )
    finally:
        await sandbox.close()
    return report, bytes(heard[StreamName.STDOUT]), bytes(heard[StreamName.STDERR])


async def test_a_sandbox_that_breaks_is_an_error_and_no_result():
    backend = await started()
    with pytest.raises(InvocationError) as broken:
        await run(backend, "fault")
    assert broken.value.detail.code is ErrorCode.SANDBOX_UNAVAILABLE
    assert (backend.opened_count, backend.closed_count, backend.open_count) == (1, 1, 0)


async def test_a_break_in_a_child_breaks_the_run():
    backend = await started()
    with pytest.raises(InvocationError):
        await run(backend, "steps", "spawn", "fault", ";", "sleep", "60")


async def test_no_task_is_left_when_a_run_returns():
    sandbox = await (await started()).open(SPEC)
    before = asyncio.all_tasks()
    argv = ("steps", "spawn", "sleep", "60", ";", "spawn", "yes", ";", "exit", "3")
    report = await sandbox.run(Process(argv=argv, wall_seconds=5), lambda _stream, _data: None)
    assert report.exit_code == 3
    assert asyncio.all_tasks() == before
    await sandbox.close()


async def test_no_task_is_left_when_a_cancelled_run_surfaces():
    sandbox = await (await started()).open(SPEC)
    before = asyncio.all_tasks()
    argv = ("steps", "spawn", "sleep", "60", ";", "echo", "ready", ";", "sleep", "60")
    ready = asyncio.Event()
    run = asyncio.ensure_future(sandbox.run(Process(argv=argv, wall_seconds=5), lambda _stream, _data: ready.set()))
    await ready.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert asyncio.all_tasks() == before
    await sandbox.close()


async def test_a_test_brings_its_own_programs():
    async def greet(call: Call) -> RunReport:
        await call.out(b"hello " + call.stdin + call.argv[1].encode())
        return RunReport(end=End.EXITED, exit_code=4)

    backend = await started(programs={"greet": greet})
    report, stdout, _ = await run(backend, "/usr/bin/greet", "you")
    assert (report.exit_code, stdout) == (4, b"hello you")
    assert backend.has_program("host", "greet")


async def test_a_mistake_in_a_tests_own_program_surfaces():
    def broken(_: Call) -> Awaitable[RunReport]:
        raise ZeroDivisionError

    backend = await started(programs={"broken": broken})
    with pytest.raises(ZeroDivisionError):
        await run(backend, "broken")


async def test_the_commands_handed_over_are_remembered():
    backend = await started()
    await run(backend, "true")
    await run(backend, "echo", "a")
    assert [process.argv for process in backend.processes] == [("true",), ("echo", "a")]


async def test_an_unavailable_backend_says_what_is_missing():
    backend = FakeBackend(unavailable="no cgroup controller `pids`: mount it")
    with pytest.raises(Unavailable, match="pids"):
        await backend.start()


async def test_a_backend_that_was_not_started_opens_nothing():
    with pytest.raises(InvocationError) as refusal:
        await FakeBackend().open(SPEC)
    assert refusal.value.detail.code is ErrorCode.SANDBOX_UNAVAILABLE
    assert "not started" in refusal.value.detail.message


async def test_output_comes_in_pieces_and_the_loop_runs_between_them():
    backend = await started()
    sandbox = await backend.open(SPEC)
    sizes: list[int] = []
    turns_at: list[int] = []
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    def heard(_: StreamName, data: bytes) -> None:
        sizes.append(len(data))
        turns_at.append(turns)

    beside = asyncio.ensure_future(turn())
    await sandbox.run(Process(argv=("zeros", "200000"), wall_seconds=5), heard)
    beside.cancel()
    await sandbox.close()
    assert sizes == [65536, 65536, 65536, 200000 - 3 * 65536]
    assert turns_at == sorted(set(turns_at))


@pytest.mark.parametrize(
    ("argv", "code", "stderr"),
    [
        (("cat", "absent"), 1, b"cat: No such file or directory\n"),
        (("write", "/etc/passwd", "x"), 1, b"write: Read-only file system\n"),
        (("write", "../etc/x", "x"), 1, b"write: Read-only file system\n"),
        (("sleep",), 2, b"sleep: bad arguments: \n"),
        (("exit", "many"), 2, b"exit: bad arguments: many\n"),
        (("kill", "-NOSUCH"), 2, b"kill: bad arguments: -NOSUCH\n"),
    ],
)
async def test_a_program_that_cannot_do_its_work_says_why(argv: tuple[str, ...], code: int, stderr: bytes):
    report, _, told = await run(await started(), *argv)
    assert (report.end, report.exit_code, told) == (End.EXITED, code, stderr)


async def test_an_input_file_outside_the_workspace_is_refused():
    backend = await started()
    with pytest.raises(InvocationError, match="Read-only") as refusal:
        await run(backend, "true", files=(InputFile(path="../etc/x", content=b""),))
    assert refusal.value.detail.code is ErrorCode.SCHEMA_VIOLATION
    assert backend.processes == []


async def test_an_empty_command_is_not_found():
    report, _, _ = await run(await started())
    assert report.end is End.NOT_FOUND


def test_excluded_paths_are_literal():
    entries = {"a[1].txt": Entry(content=b"own"), "a1.txt": Entry(content=b"result")}
    collection = pick(entries, ("*",), ("a[1].txt",), Limits())
    assert [file.path for file in collection.files] == ["a1.txt"]


def test_a_count_of_one_refuses_the_second_file():
    entries = {"a": Entry(content=b"1"), "b": Entry(content=b"2")}
    collection = pick(entries, ("*",), (), Limits(artifact_count=1))
    assert collection.refused == (RefusedFile(path="b", reason="more files than artifact_count allows"),)


def test_nothing_matched_is_an_empty_collection():
    assert pick({"a": Entry()}, ("b*",), (), Limits()) == Collection()
