"""Exceptions become a gRPC status here and nowhere else, by table.

What happened to a tool never comes this way: it is an outcome, with status OK. An exception that nobody foresaw is
INTERNAL with an id, under which the log has its traceback; the caller never sees one.
"""

import secrets
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status

from executor.codec import MalformedRequest
from executor.codec.walk import shown
from executor.model.errors import BadRequest, Misconfigured, NotFound, ServiceError, Unavailable
from executor.telemetry.logs import logger

DOMAIN = "executor"
"""Of the reasons in `google.rpc.ErrorInfo`."""
INTERNAL_REASON = "INTERNAL"

_log = logger(__name__)


class Draining(Unavailable):
    """The service ends what it runs and takes nothing new."""


@dataclass(frozen=True, slots=True)
class Row:
    code: int
    """Of `google.rpc.Code`; the same numbers as gRPC's."""
    reason: str
    retry_seconds: int | None = None


TABLE: dict[type[ServiceError], Row] = {
    Draining: Row(code_pb2.UNAVAILABLE, "DRAINING", retry_seconds=5),
    Unavailable: Row(code_pb2.UNAVAILABLE, "UNAVAILABLE", retry_seconds=1),
    NotFound: Row(code_pb2.NOT_FOUND, "NOT_FOUND"),
    BadRequest: Row(code_pb2.INVALID_ARGUMENT, "BAD_REQUEST"),
    Misconfigured: Row(code_pb2.FAILED_PRECONDITION, "MISCONFIGURED"),
    ServiceError: Row(code_pb2.INTERNAL, INTERNAL_REASON),
}


def status_of(error: ServiceError) -> status_pb2.Status:
    row = next(TABLE[kind] for kind in type(error).__mro__ if kind in TABLE)
    details: list[Message] = [error_details_pb2.ErrorInfo(reason=row.reason, domain=DOMAIN)]
    if isinstance(error, MalformedRequest):
        violation = error_details_pb2.BadRequest.FieldViolation(field=error.field, description=shown(error.problem))
        details.append(error_details_pb2.BadRequest(field_violations=[violation]))
    if row.retry_seconds is not None:
        details.append(error_details_pb2.RetryInfo(retry_delay=Duration(seconds=row.retry_seconds)))
    return _status(row.code, shown(str(error)), details)


def internal(incident: str) -> status_pb2.Status:
    message = f"The service has failed in a way that it did not foresee; its log tells more under {incident}."
    info = error_details_pb2.ErrorInfo(reason=INTERNAL_REASON, domain=DOMAIN, metadata={"incident": incident})
    return _status(code_pb2.INTERNAL, message, [info])


class Answered:
    """Around the body of each RPC: what it raises ends the RPC with the status that stands for it."""

    def __init__(self, context: "grpc.aio.ServicerContext[Any, Any]") -> None:
        self._context = context

    async def __aenter__(self) -> None:
        return None

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, ServiceError):
            await self._context.abort_with_status(rpc_status.to_status(status_of(error)))
        if isinstance(error, Exception) and not isinstance(error, grpc.aio.AbortError):
            incident = f"inc_{secrets.token_hex(8)}"
            _log.error("unforeseen failure", incident=incident, exc_info=error)
            await self._context.abort_with_status(rpc_status.to_status(internal(incident)))


def _status(code: int, message: str, details: list[Message]) -> status_pb2.Status:
    status = status_pb2.Status(code=code, message=message)
    for detail in details:
        packed = AnyMessage()
        packed.Pack(detail)
        status.details.append(packed)
    return status
