"""What a caller can do to the service: too much, too slowly, too late, or not at all any more."""

import asyncio
import itertools
import json
import math
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest

from executor.client import ExecutorClient
from executor.model.errors import BadRequest, ErrorClass, ErrorCode
from executor.model.invocation import InputFile
from executor.model.limits import LEAST, LIMIT_NAMES, Limits
from executor.model.outcome import State
from executor.settings import default_slots
from executor.v1 import executor_pb2 as pb
from executor.v1 import executor_pb2_grpc as rpc
from tests.security import world
from tests.security.caller import Caller, assert_completed, until
from tests.security.memory import MIB, growth
from tests.security.serving import Server

DEAD_SECONDS = 0.5
WHOLE = frozenset(name for name in LIMIT_NAMES if isinstance(getattr(Limits(), name), int))
STUBBORN = """
import os, signal, sys, time
for number in set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
for _ in range(30):
    if not os.fork():
        os.setsid()
        if os.fork():
            os._exit(0)
        while True:
            pass
print("ready", flush=True)
while True:
    time.sleep(1)
"""
SLEEP = 'import time; print("ready", flush=True); time.sleep(60)'
TALK = """
import sys, time
until = time.monotonic() + 2
for _ in range(480):
    sys.stdout.buffer.write(b"x" * 65536)
    sys.stdout.buffer.flush()
time.sleep(max(0, until - time.monotonic()))
"""
TALK_BYTES = 480 * 65536
USE_EVERYTHING = """
import os
if not os.fork():
    os._exit(0)
os.wait()
for place in ("/workspace", "/tmp", "/dev/shm"):
    with open(f"{place}/file", "wb") as file:
        file.write(b"x" * 65536)
kept = [open("/dev/null") for _ in range(3)]
used = b"x" * (8 << 20)
for _ in range(3_000_000):
    pass
print("x" * 100)
"""
LEAST_CORES = 0.1
DISK = {ErrorCode.DISK_LIMIT, ErrorCode.PAYLOAD_TOO_LARGE}
MET = {
    "wall_seconds": {ErrorCode.TIMEOUT},
    "cpu_seconds": {ErrorCode.CPU_LIMIT},
    "memory_bytes": {ErrorCode.MEMORY_LIMIT, ErrorCode.SANDBOX_UNAVAILABLE},
    "processes": {ErrorCode.PIDS_LIMIT},
    "workspace_bytes": DISK,
    "workspace_inodes": DISK,
    "tmp_bytes": DISK,
    "tmp_inodes": DISK,
    "file_bytes": DISK,
    "output_bytes": {ErrorCode.OUTPUT_LIMIT},
}
"""How the least limit is met."""
HARMLESS = {"cpu_cores", "open_files", "text_bytes", "artifact_count", "artifact_bytes"}
"""These end no program."""


@pytest.mark.parametrize("where", ["arguments", "files", "collect"])
async def test_a_request_of_fifty_mebibytes_is_refused_and_costs_the_server_nothing(server: Server, where: str) -> None:
    """Probe 90: 50 MiB request."""
    invocation = pb.Invocation(tool="shell", arguments_json='{"command": "true"}')
    if where == "arguments":
        invocation.arguments_json = '{"command": "' + "x" * (50 * MIB) + '"}'
    elif where == "files":
        invocation.files.add(path="large", content=bytes(50 * MIB))
    else:
        invocation.collect.extend(["x" * MIB] * 50)
    async with stub(server) as service:
        await service.GetTool(pb.GetToolRequest(name="shell"))  # the connection stands

        with growth(server.pid) as grown:
            status = await status_of(service, pb.ExecuteRequest(invocation=invocation))

    assert status is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert grown.peak_bytes <= 10 * MIB
    assert grown.kept_bytes <= 10 * MIB


async def test_eight_requests_of_fifty_mebibytes_at_a_time_cost_no_more_each(server: Server) -> None:
    """Probe 90: 50 MiB request."""
    request = pb.ExecuteRequest(invocation=pb.Invocation(tool="shell", arguments_json="x" * (50 * MIB)))

    async def refused() -> grpc.StatusCode | None:
        async with stub(server) as service:
            return await status_of(service, request)

    with growth(server.pid) as grown:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(refused()) for _ in range(8)]

    assert {task.result() for task in tasks} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
    assert grown.peak_bytes <= 8 * 10 * MIB


async def test_a_reader_who_does_not_read_holds_up_nobody(caller: Caller, server: Server) -> None:
    """Probe 92: slow reader."""
    request = pb.ExecuteStreamRequest(invocation=pb.Invocation(tool="plenty", arguments_json=code_of(TALK)))
    async with stub(server) as service:
        with growth(server.pid) as grown:
            began = time.monotonic()
            call = service.ExecuteStream(request)
            await until(lambda: bool(world.busy_sandboxes(server)), 5.0)
            await until(lambda: not world.busy_sandboxes(server), 5.0)
            took = time.monotonic() - began

        events = [event async for event in call]

    outcome = events[-1].outcome
    assert outcome.state == pb.Outcome.COMPLETED
    assert 2.0 <= took <= 3.5
    assert grown.peak_bytes <= 12 * MIB
    pieces = [event.output for event in events if event.HasField("output")]
    told = sum(len(piece.data) + piece.skipped_bytes for piece in pieces)
    assert told == outcome.stdout.total_bytes == TALK_BYTES
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    assert_completed(await caller.shell("true"))


async def test_a_reader_who_never_reads_and_goes_away_leaves_nothing(caller: Caller, server: Server) -> None:
    """Probe 92: slow reader."""
    code = code_of(f"{TALK}\nwhile True: time.sleep(1)")
    request = pb.ExecuteStreamRequest(invocation=pb.Invocation(tool="plenty", arguments_json=code))
    async with stub(server) as service:
        service.ExecuteStream(request)
        await until(lambda: bool(world.busy_sandboxes(server)), 5.0)
        tree = running_processes(server)

    await all_dead(tree)
    assert_completed(await caller.shell("true"))


@pytest.mark.parametrize("code", [SLEEP, STUBBORN], ids=["sleeping", "stubborn"])
async def test_a_run_that_is_cancelled_by_name_is_dead_at_once(caller: Caller, server: Server, code: str) -> None:
    """Probe 94: cancel mid-run."""
    async with caller.running(code, b"ready", call_id="mid-run") as task:
        tree = running_processes(server)
        began = time.monotonic()
        cancelled = await caller.client.cancel(call_id="mid-run")
        took = time.monotonic() - began

        assert [process for process in tree if process.is_running()] == []
        assert took <= DEAD_SECONDS
        assert len(cancelled) == 1
        assert (await task).state is State.CANCELLED


@pytest.mark.parametrize("code", [SLEEP, STUBBORN], ids=["sleeping", "stubborn"])
async def test_a_run_whose_caller_goes_away_is_dead_at_once(caller: Caller, server: Server, code: str) -> None:
    """Probe 94: cancel mid-run."""
    async with caller.running(code, b"ready") as task:
        tree = running_processes(server)
        task.cancel()
        await all_dead(tree)


async def test_a_run_whose_connection_breaks_is_dead_at_once(server: Server) -> None:
    """Probe 94: cancel mid-run."""
    client = ExecutorClient(server.address)
    async with Caller(client).running(STUBBORN, b"ready"):
        tree = running_processes(server)
        await client.close()
        await all_dead(tree)


async def test_calls_that_are_cancelled_before_they_run_leave_nothing(caller: Caller, server: Server) -> None:
    """Probe 94: cancel mid-run."""
    for delay_ms in (0, 1, 2, 5, 10, 15, 20, 30):
        # limits of its own, so that no parked sandbox fits and one is being made when the call is taken back
        task = asyncio.create_task(caller.python(SLEEP, limits={"tmp_bytes": MIB + delay_ms * 4096}))
        await asyncio.wait((task,), timeout=delay_ms / 1000)
        task.cancel()
        await asyncio.wait((task,))

    await until(lambda: not world.busy_sandboxes(server), DEAD_SECONDS)


async def test_with_a_deadline_of_a_millisecond_nothing_is_started(caller: Caller, server: Server) -> None:
    """Probe 95: expired or 1 ms deadline."""
    request = pb.ExecuteRequest(invocation=pb.Invocation(tool="shell", arguments_json='{"command": "sleep 60"}'))
    first, before = await sandboxes_made(caller, server), await sandboxes_made(caller, server)
    async with stub(server) as service:
        for timeout_seconds in (0.001, 0.001, 0.001, 0.002, 0.003, 0.004, 0.0, -1.0):
            await assert_too_late(service, request, timeout_seconds)

    assert await sandboxes_made(caller, server) - before == before - first  # those that the count itself takes


async def test_a_deadline_that_passes_in_the_queue_starts_nothing(caller: Caller, server: Server) -> None:
    """Probe 95: expired or 1 ms deadline."""
    async with AsyncExitStack() as stack:
        for _ in range(default_slots()):
            await stack.enter_async_context(caller.running(SLEEP, b"ready"))
        before = set(world.busy_sandboxes(server))

        for timeout_seconds in (0.3, 1.0):
            outcome = await caller.client.execute("shell", {"command": "sleep 60"}, timeout_seconds=timeout_seconds)
            assert outcome.error is not None
            assert (outcome.error.code, outcome.error.retryable) == (ErrorCode.TIMEOUT, True)
            assert "nothing ran" in outcome.error.message

        assert set(world.busy_sandboxes(server)) == before


NUL = "\0"
REFUSED: dict[str, tuple[dict[str, Any], ErrorCode, str]] = {
    "a NUL in argv": ({"arguments": {"value": f"a{NUL}b"}}, ErrorCode.SCHEMA_VIOLATION, "NUL"),
    "a NUL in an option": ({"arguments": {"value": "a", "option": NUL}}, ErrorCode.SCHEMA_VIOLATION, "NUL"),
    "a NUL in a path argument": ({"arguments": {"value": "a", "path": f"a{NUL}"}}, ErrorCode.SCHEMA_VIOLATION, "NUL"),
    "a NUL in a path": ({"files": [InputFile(path=f"a{NUL}b", content=b"")]}, ErrorCode.SCHEMA_VIOLATION, "NUL"),
    "a NUL in a glob": ({"collect": [f"a{NUL}*"]}, ErrorCode.SCHEMA_VIOLATION, "NUL"),
    "3 MiB of argv": ({"arguments": {"value": "x" * (3 * MIB)}}, ErrorCode.PAYLOAD_TOO_LARGE, "arguments_bytes"),
    "one large argument": ({"arguments": {"value": "x" * 200_000}}, ErrorCode.PAYLOAD_TOO_LARGE, "argv_item_bytes"),
    "environment": (
        {"arguments": {"value": "a", "env": {f"NAME_{n}": "value" for n in range(10_000)}}},
        ErrorCode.SCHEMA_VIOLATION,
        "env",
    ),
    "10,000 globs": ({"collect": [f"g{n}" for n in range(10_000)]}, ErrorCode.SCHEMA_VIOLATION, "globs"),
    "a path of 5,000 bytes": (
        {"files": [InputFile(path="/".join(["x" * 100] * 50), content=b"")]},
        ErrorCode.SCHEMA_VIOLATION,
        "4095 bytes",
    ),
}


@pytest.mark.parametrize(("options", "code", "word"), REFUSED.values(), ids=REFUSED.keys())
async def test_what_a_command_cannot_hold_is_refused_and_named(
    caller: Caller, options: dict[str, Any], code: ErrorCode, word: str
) -> None:
    """Probe 96: NUL in argv/env/path, 3 MiB argv, 10,000 env."""
    outcome = await caller.call("argv", **({"arguments": {"value": "a"}} | options))

    assert outcome.state is State.FAILED
    assert outcome.error is not None
    assert outcome.error.code is code
    assert outcome.error.error_class is ErrorClass.INVALID_ARGUMENT
    assert word in f"{outcome.error.message} {outcome.error.violations}"
    assert outcome.isolation is None


@pytest.mark.parametrize("name", LIMIT_NAMES)
async def test_a_limit_that_is_not_positive_and_finite_is_refused(server: Server, name: str) -> None:
    """Probe 98: limits 0, negative, NaN, 1e18."""
    values = [0, -1, -(2**63)] if name in WHOLE else [0.0, -0.0, -1.0, -1e18, math.nan, math.inf, -math.inf]
    async with stub(server) as service:
        for value in values:
            outcome = (await service.Execute(limited(name, value))).outcome

            assert outcome.state == pb.Outcome.FAILED
            assert getattr(outcome.error, "class") == pb.Error.INVALID_ARGUMENT
            assert outcome.error.violations[0].pointer == f"/limits/{name}"
            assert not outcome.HasField("isolation")


@pytest.mark.parametrize("name", LIMIT_NAMES)
async def test_a_limit_that_is_larger_than_the_tools_is_clamped_to_it(server: Server, name: str) -> None:
    """Probe 98: limits 0, negative, NaN, 1e18."""
    values = [10**18, 2**63 - 1] if name in WHOLE else [1e18, 1.7e308]
    async with stub(server) as service:
        tool = (await service.GetTool(pb.GetToolRequest(name="shell"))).tool
        for value in values:
            outcome = (await service.Execute(limited(name, value))).outcome

            assert outcome.state == pb.Outcome.COMPLETED
            assert outcome.isolation.limits == tool.limits


@pytest.mark.parametrize("name", LIMIT_NAMES)
async def test_the_smallest_limit_is_the_least_and_not_none(caller: Caller, name: str) -> None:
    """Probe 98: limits 0, negative, NaN, 1e18."""
    least = LEAST_CORES if name == "cpu_cores" else LEAST.get(name, 1 if name in WHOLE else 1e-9)

    outcome = await caller.call("probe", {"code": USE_EVERYTHING}, limits={name: least})

    assert outcome.usage.wall_ms <= 5000
    if outcome.isolation is not None:
        assert getattr(outcome.isolation.limits, name) == least
    if outcome.error is not None:
        assert outcome.error.code in MET[name]
    else:
        assert name in HARMLESS


@pytest.mark.parametrize("name", LEAST)
async def test_a_limit_too_low_for_any_sandbox_is_refused_naming_the_least(caller: Caller, name: str) -> None:
    """Probe 98: limits 0, negative, NaN, 1e18."""
    outcome = await caller.shell("true", limits={name: LEAST[name] / 2 if name == "cpu_cores" else 1})
    assert outcome.error is not None
    assert outcome.error.code is ErrorCode.SCHEMA_VIOLATION
    assert [(v.pointer, v.keyword) for v in outcome.error.violations] == [(f"/limits/{name}", "minimum")]


async def test_a_limit_that_does_not_exist_is_refused_by_name(caller: Caller) -> None:
    """Probe 98: limits 0, negative, NaN, 1e18."""
    with pytest.raises(BadRequest, match="no limit 'memory'"):
        await caller.shell("true", limits={"memory": 1.0})


def limited(name: str, value: float) -> pb.ExecuteRequest:
    overrides = pb.LimitOverrides(**{name: value})  # type: ignore[arg-type]
    return pb.ExecuteRequest(
        invocation=pb.Invocation(tool="shell", arguments_json='{"command": "true"}', limits=overrides)
    )


def code_of(program: str) -> str:
    return json.dumps({"code": program})


@asynccontextmanager
async def stub(server: Server) -> AsyncIterator[Any]:
    """The service as the wire has it, without the client's own checks."""
    options = (("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1))
    async with grpc.aio.insecure_channel(server.address, options=options) as channel:
        yield rpc.ExecutorServiceStub(channel)


async def status_of(service: Any, request: pb.ExecuteRequest) -> grpc.StatusCode | None:
    """None where it was answered. An error kept any longer would keep its call, and with it the connection."""
    try:
        await service.Execute(request)
    except grpc.aio.AioRpcError as error:
        return error.code()
    return None


def running_processes(server: Server) -> list[psutil.Process]:
    """Of every sandbox whose program runs now: its init and all below."""
    inits = [psutil.Process(pid) for pid in world.busy_sandboxes(server)]
    assert inits != []
    return [process for init in inits for process in (init, *init.children(recursive=True))]


async def all_dead(tree: list[psutil.Process]) -> None:
    await until(lambda: not any(process.is_running() for process in tree), DEAD_SECONDS)


def numbers_of_sandboxes(server: Server) -> list[int]:
    """Of those that are there now; the server counts them as it makes them."""
    names = [path.name for path in Path(world.cgroup_directories(server.pid)[0]).iterdir() if path.is_dir()]
    return [int(name.removeprefix("sandbox-")) for name in names]


OWN_LIMITS = itertools.count(1)


async def sandboxes_made(caller: Caller, server: Server) -> int:
    """How many there have ever been. To see it, one is made that no parked one could have been, and as many more as a
    pool then parks: each count alone adds the same.
    """
    limits = {"tmp_bytes": 2 * MIB + next(OWN_LIMITS) * 4096}
    async with caller.running(SLEEP, b"ready", limits=limits):
        made = numbers_of_sandboxes(server)
    await asyncio.to_thread(world.calm, server)
    return max(made + numbers_of_sandboxes(server))


async def assert_too_late(service: Any, request: pb.ExecuteRequest, timeout_seconds: float) -> None:
    """No answer in time, or one that says that nothing ran."""
    try:
        answer = await service.Execute(request, timeout=timeout_seconds)
    except grpc.aio.AioRpcError as error:
        assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED  # noqa: PT017 - raises or not
    else:
        assert answer.outcome.error.code == pb.Error.TIMEOUT
        assert "nothing ran" in answer.outcome.error.message
