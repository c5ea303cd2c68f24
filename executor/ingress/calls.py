"""What an RPC says beside its message: who calls, until when, and of which trace."""

import os
import re
import time
from contextvars import ContextVar
from typing import Any

import grpc

from executor.codec import MalformedRequest, invocation_from_wire
from executor.model.invocation import LOCAL, Invocation, Principal
from executor.v1 import executor_pb2 as pb

Context = grpc.aio.ServicerContext[Any, Any]

_ARRIVED: ContextVar[float | None] = ContextVar("_ARRIVED", default=None)
"""On `time.monotonic`, in seconds. Of the RPC whose task this is; each has a context of its own."""

_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")


def arrived() -> None:
    """The bytes of this RPC's request are here."""
    _ARRIVED.set(time.monotonic())


def principal_of(context: Context) -> Principal:
    """Whoever can reach the socket is the operator's own user: there are no other ways in yet."""
    del context
    return LOCAL


def invocation_of(request: pb.ExecuteRequest | pb.ExecuteStreamRequest, context: Context) -> Invocation:
    """Raises MalformedRequest."""
    if not request.HasField("invocation"):
        raise MalformedRequest("invocation", "is missing")
    return invocation_from_wire(
        request.invocation,
        invocation_id=new_invocation_id(),
        principal=principal_of(context),
        trace_id=_trace_id(context),
        deadline=_deadline(context),
        arrived=_ARRIVED.get(),
    )


def new_invocation_id() -> str:
    """Unique, and in the order of time: 48 bits of milliseconds, 80 random ones."""
    return f"inv_{time.time_ns() // 1_000_000:012x}{os.urandom(10).hex()}"


def _deadline(context: Context) -> float | None:
    left: float | None = context.time_remaining()
    return None if left is None else time.monotonic() + left


def _trace_id(context: Context) -> str:
    """As W3C asks, a `traceparent` that cannot be read begins a new trace."""
    for name, value in context.invocation_metadata() or ():
        if name == "traceparent" and isinstance(value, str) and (found := _TRACEPARENT.fullmatch(value)):
            return found[1]
    return os.urandom(16).hex()
