"""Reads the bytes of every request inside the RPC, where what is no message can be refused like any other bad request.

gRPC's own deserializers run outside of it: what they raise becomes UNKNOWN for the client and a traceback in the log,
once for each message that anybody sends.
"""

from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from executor.codec import MalformedRequest
from executor.ingress.calls import Context, arrived
from executor.ingress.errors import Answered
from executor.telemetry.logs import logger

Parse = Callable[[bytes], Any]
"""Raises DecodeError."""

_log = logger(__name__)


class ReadsInside:
    """A server as those see it who add a service to it. An interceptor would be asked, and make its handler, anew for
    each call.

    For each handler whose behaviour is a coroutine, or that takes and gives a stream as a generator.
    """

    def __init__(self, server: grpc.aio.Server) -> None:
        self._server = server

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        self._server.add_generic_rpc_handlers(tuple(map(_Reading, handlers)))

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        """The same handlers, for servers that are asked for them by name; an asyncio server is not."""


class _Reading(grpc.GenericRpcHandler):
    def __init__(self, handlers: grpc.GenericRpcHandler) -> None:
        self._handlers = handlers
        self._known: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[Any, Any] | None":
        method = handler_call_details.method
        if (known := self._known.get(method)) is not None:
            return known
        handler: Any = self._handlers.service(handler_call_details)
        if handler is None:  # there is no such method, which gRPC answers
            return None
        made = self._known[method] = _reading(method, handler)
        return made


def _reading(method: str, handler: Any) -> "grpc.RpcMethodHandler[Any, Any]":  # noqa: ANN401 - as gRPC's stubs have it
    parse, write = handler.request_deserializer, handler.response_serializer
    if handler.unary_unary:
        return grpc.unary_unary_rpc_method_handler(_one(handler.unary_unary, parse, method), None, write)
    if handler.unary_stream:
        return grpc.unary_stream_rpc_method_handler(_one(handler.unary_stream, parse, method), None, write)
    return grpc.stream_stream_rpc_method_handler(_many(handler.stream_stream, parse, method), None, write)


def _one(behaviour: Any, parse: Parse, method: str) -> Any:  # noqa: ANN401 - as gRPC's stubs have them
    async def call(raw: bytes, context: Context) -> Any:  # noqa: ANN401
        arrived()
        try:
            request = parse(raw)
        except DecodeError:
            async with Answered(context):
                raise _refused(raw, method) from None
        return await behaviour(request, context)

    return call


def _many(behaviour: Any, parse: Parse, method: str) -> Any:  # noqa: ANN401
    def read(raw: bytes) -> Any:  # noqa: ANN401 - a message of the method's own type
        try:
            return parse(raw)
        except DecodeError:
            raise _refused(raw, method) from None

    async def call(raws: AsyncIterable[bytes], context: Context) -> AsyncIterator[Any]:
        async with Answered(context):
            async for response in behaviour((read(raw) async for raw in raws), context):
                yield response

    return call


def _refused(raw: bytes, method: str) -> MalformedRequest:
    _log.warning("request refused: not a message", method=method, size_bytes=len(raw))
    return MalformedRequest("request", f"its {len(raw)} bytes are not a message of {method}")
