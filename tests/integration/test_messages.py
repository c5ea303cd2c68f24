"""Bytes that are no message, sent to every method that the server has."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_status import rpc_status

from executor.client import ExecutorClient
from executor.ingress.server import SERVICE
from executor.v1 import executor_pb2 as pb
from tests.support.served import Served

GARBAGE = (b"\xff" * 100, b"\x0a\xff\xff\xff\xff\x0f", b"\x0a\x05\x0a\x03\xff", b"\x00", b"\x0b" * 5000)
METHODS = tuple(f"/{SERVICE}/{method.name}" for method in pb.DESCRIPTOR.services_by_name["ExecutorService"].methods)
HEALTH = ("/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch")
REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"


async def refusal(channel: grpc.aio.Channel, method: str, garbage: bytes) -> grpc.aio.AioRpcError:
    if method == REFLECTION:
        call = channel.stream_stream(method)(iter([garbage]), timeout=10)
    else:
        call = channel.unary_stream(method)(garbage, timeout=10)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await anext(aiter(call))
    return caught.value


@contextmanager
def one_line_each(caplog: pytest.LogCaptureFixture, method: str, count: int) -> Iterator[None]:
    caplog.clear()
    with caplog.at_level(logging.INFO):
        yield
    assert len(caplog.records) == count
    for record in caplog.records:
        assert record.exc_info is None
        assert method in str(record.msg)


@pytest.mark.parametrize("method", [*METHODS, *HEALTH, REFLECTION])
async def test_what_is_no_message_is_an_invalid_argument_and_one_line(
    served: Served, caplog: pytest.LogCaptureFixture, method: str
) -> None:
    async with grpc.aio.insecure_channel(served.address) as channel:
        with one_line_each(caplog, method, len(GARBAGE)):
            refusals = [await refusal(channel, method, garbage) for garbage in GARBAGE]
    assert {error.code() for error in refusals} == {grpc.StatusCode.INVALID_ARGUMENT}
    assert "not a message of" in (refusals[0].details() or "")
    assert "Traceback" not in str(refusals)
    bad = error_details_pb2.BadRequest()
    assert rpc_status.from_call(refusals[0]).details[1].Unpack(bad)
    assert bad.field_violations[0].field == "request"


async def test_a_method_that_does_not_exist_is_told(served: Served) -> None:
    async with grpc.aio.insecure_channel(served.address) as channel:
        error = await refusal(channel, f"/{SERVICE}/Nothing", b"\xff")
    assert error.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_the_server_goes_on_after_garbage(served: Served, client: ExecutorClient) -> None:
    async with grpc.aio.insecure_channel(served.address) as channel:
        await refusal(channel, METHODS[0], GARBAGE[0])
    assert (await client.execute("echo", {"text": "a"})).stdout.text == "a\n"


async def test_reflection_names_the_services_whose_methods_are_tried_here(served: Served) -> None:
    asked = reflection_pb2.ServerReflectionRequest(list_services="")
    async with grpc.aio.insecure_channel(served.address) as channel:
        call = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(iter([asked, asked]))
        answers = [answer async for answer in call]
    assert len(answers) == 2
    named = {service.name for service in answers[1].list_services_response.service}
    assert named == {method.split("/")[1] for method in (*METHODS, *HEALTH, REFLECTION)}
