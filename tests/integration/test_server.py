"""What the server is beside its RPCs: addresses, health, sizes of messages, statuses, an orderly end."""

import asyncio
import fcntl
import logging
import os
import socket
import stat
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import grpc
import psutil
import pytest
import structlog
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_status import rpc_status

from executor.client import ExecutorClient, State
from executor.ingress.server import SERVICE
from executor.model.errors import Misconfigured, Unavailable
from executor.model.invocation import Invocation
from executor.model.outcome import Outcome
from executor.sandbox.recorder import Observer
from executor.telemetry import logs
from executor.v1 import executor_pb2 as pb
from executor.v1 import executor_pb2_grpc as rpc
from tests.support.served import Served, serving


def socket_path(served: Served) -> Path:
    return Path(served.address.removeprefix("unix:"))


async def serving_status(served: Served, name: str = SERVICE) -> int:
    async with grpc.aio.insecure_channel(served.address) as channel:
        answer = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=name))
    return answer.status


async def test_the_socket_is_for_its_owner_alone(served: Served) -> None:
    path = socket_path(served)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


async def test_the_process_keeps_its_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        async with serving(tmp_path) as served:
            assert stat.S_IMODE(socket_path(served).stat().st_mode) == 0o600
            assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)


async def test_a_socket_that_somebody_listens_on_is_not_taken(served: Served, client: ExecutorClient) -> None:
    with pytest.raises(Unavailable, match="Another server listens"):
        async with serving(socket_path(served).parent.parent):
            pass
    assert (await client.execute("echo", {"text": "still here"})).exit_code == 0


async def test_a_socket_that_a_dead_server_left_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "run" / "executor.sock"
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    async with serving(tmp_path) as served, served.client() as client:
        assert (await client.execute("echo", {"text": "a"})).exit_code == 0


async def test_a_file_in_the_way_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "run" / "executor.sock"
    path.parent.mkdir()
    path.write_text("precious")
    with pytest.raises(Misconfigured, match="not a socket"):
        async with serving(tmp_path):
            pass
    assert path.read_text() == "precious"
    path.unlink()


async def test_a_port_that_is_taken_is_refused_by_name(served: Served, tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=f"Cannot listen at {served.tcp_address}"):
        async with serving(tmp_path / "second", addresses=[served.tcp_address]):
            pass


@pytest.mark.parametrize("address", ["0.0.0.0:50051", "192.0.2.7:50051", "[::]:50051", "example.org:50051"])
async def test_an_address_beyond_this_machine_is_refused(tmp_path: Path, address: str) -> None:
    with pytest.raises(Misconfigured, match="TLS and tokens are not available yet"):
        async with serving(tmp_path, addresses=[address]):
            pass


async def test_both_addresses_answer(served: Served) -> None:
    for address in (served.address, served.tcp_address):
        async with served.client(address) as client:
            assert (await client.execute("echo", {"text": "a"})).stdout.text == "a\n"


async def test_the_trace_id_comes_from_the_metadata_where_the_message_has_none(served: Served) -> None:
    request = pb.ExecuteRequest(invocation=pb.Invocation(tool="echo", arguments_json='{"text":"a"}'))
    async with grpc.aio.insecure_channel(served.address) as channel:
        stub = rpc.ExecutorServiceStub(channel)
        traced = await stub.Execute(request, metadata=[("traceparent", f"00-{'ab' * 16}-{'12' * 8}-01")])
        broken = await stub.Execute(request, metadata=[("traceparent", f"00-{'0' * 32}-{'12' * 8}-01")])
    assert traced.outcome.trace_id == "ab" * 16
    assert len(broken.outcome.trace_id) == 32
    assert set(broken.outcome.trace_id) != {"0"}


async def test_a_refusal_carries_its_field_and_its_reason(served: Served) -> None:
    async with grpc.aio.insecure_channel(served.address) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await rpc.ExecutorServiceStub(channel).Execute(pb.ExecuteRequest(invocation=pb.Invocation()))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    status = rpc_status.from_call(caught.value)
    info, bad = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
    assert status.details[0].Unpack(info)
    assert status.details[1].Unpack(bad)
    assert (info.reason, info.domain) == ("BAD_REQUEST", "executor")
    assert [(v.field, v.description) for v in bad.field_violations] == [("invocation.tool", "is missing")]


class Broken:
    """A pipeline with a fault that nobody foresaw."""

    async def execute(self, invocation: Invocation, observer: Observer, cancelled: asyncio.Event) -> Outcome:
        del invocation, observer, cancelled
        raise ZeroDivisionError("the secret of /etc/shadow")


async def test_an_unforeseen_fault_is_logged_under_an_id_and_not_shown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tmp_path, pipeline=Broken()) as served, grpc.aio.insecure_channel(served.address) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await rpc.ExecutorServiceStub(channel).Execute(pb.ExecuteRequest(invocation=pb.Invocation(tool="a")))
    assert caught.value.code() is grpc.StatusCode.INTERNAL
    info = error_details_pb2.ErrorInfo()
    assert rpc_status.from_call(caught.value).details[0].Unpack(info)
    assert info.metadata["incident"] in (caught.value.details() or "")
    assert "shadow" not in str(caught.value)
    assert "Traceback" not in str(caught.value)
    record = next(r for r in caplog.records if "unforeseen" in str(r.msg))
    assert info.metadata["incident"] in str(record.msg)


FLOOD = """
    import sys
    import grpc
    from executor.v1 import executor_pb2 as pb, executor_pb2_grpc as rpc
    request = pb.ExecuteRequest(invocation=pb.Invocation(tool="echo", arguments_json=" " * (50 * 1024 * 1024)))
    compression = grpc.Compression.Gzip if sys.argv[2] == "gzip" else grpc.Compression.NoCompression
    with grpc.insecure_channel(sys.argv[1]) as channel:
        for _ in range(5):
            try:
                rpc.ExecutorServiceStub(channel).Execute(request, compression=compression)
            except grpc.RpcError as error:
                print(error.code().name)
"""


@pytest.mark.parametrize("compression", ["none", "gzip"])
async def test_a_request_of_50_mib_is_refused_in_bounded_memory(served: Served, compression: str) -> None:
    before = psutil.Process().memory_info().rss
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", textwrap.dedent(FLOOD), served.address, compression, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    most, answers = before, []
    async for line in process.stdout:
        answers.append(line.decode().strip())
        most = max(most, psutil.Process().memory_info().rss)
    await process.wait()
    assert answers == ["RESOURCE_EXHAUSTED"] * 5
    assert most - before < 40 * 1024 * 1024


async def test_health_says_serving(served: Served) -> None:
    assert await serving_status(served) == health_pb2.HealthCheckResponse.SERVING
    assert await serving_status(served, "") == health_pb2.HealthCheckResponse.SERVING


async def test_a_drain_lets_running_calls_end_and_refuses_new_ones(served: Served, client: ExecutorClient) -> None:
    call = asyncio.create_task(client.execute("slow", {}))
    await served.until(lambda: served.backend.open_count == 1)
    drain = asyncio.create_task(served.server.drain(grace_seconds=10))
    await asyncio.sleep(0)
    assert await serving_status(served) == health_pb2.HealthCheckResponse.NOT_SERVING
    with pytest.raises(Unavailable, match="shutting down"):
        await client.execute("echo", {"text": "too late"})
    assert (await client.list_tools())[0].name == "echo"
    await drain
    assert (await call).stderr.text == "second\n"


async def test_a_drain_cancels_what_outlasts_the_grace_and_its_caller_is_told(
    served: Served, client: ExecutorClient
) -> None:
    call = asyncio.create_task(client.execute("sleep", {"seconds": 15}))
    await served.until(lambda: served.backend.open_count == 1)
    await served.server.stop(grace_seconds=0.05)
    assert (await call).state is State.CANCELLED
    assert served.backend.open_count == 0
    assert not socket_path(served).exists()


async def test_a_second_drain_cuts_the_first_short(served: Served, client: ExecutorClient) -> None:
    call = asyncio.create_task(client.execute("sleep", {"seconds": 15}))
    await served.until(lambda: served.backend.open_count == 1)
    patient = asyncio.create_task(served.server.drain(grace_seconds=60))
    await asyncio.sleep(0)
    await served.server.drain(grace_seconds=0)
    await patient
    assert (await call).state is State.CANCELLED


async def test_a_server_that_is_stopped_twice_stays_stopped(served: Served) -> None:
    await served.server.stop()
    await served.server.stop()
    async with served.client() as client:
        with pytest.raises(Unavailable, match="nothing was sent"):
            await client.execute("echo", {"text": "a"})


async def test_calls_go_on_while_nobody_reads_the_log(
    served: Served, client: ExecutorClient, monkeypatch: pytest.MonkeyPatch, unlogged: None
) -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stream, os.fdopen(reading, "rb"):
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
        monkeypatch.setattr("sys.stderr", stream)
        lines = logs.configure(logs.LogForm.JSON)
        for number in range(100):
            assert (await client.execute("echo", {"text": f"{number}"})).stdout.text == f"{number}\n"
        await served.server.drain(grace_seconds=10)
        assert lines._held_bytes > 0
        lines.close(0)


@pytest.fixture
def unlogged() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()
