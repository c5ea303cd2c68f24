"""A gRPC status becomes an error of our tree here and nowhere else, by table."""

from collections.abc import Iterator
from contextlib import contextmanager

import grpc

from executor.model.errors import BadRequest, Misconfigured, NotFound, ServiceError, Unavailable


class DeadlinePassed(Unavailable):
    """The answer did not come in time. Whether the tool ran is not known."""


TABLE: dict[grpc.StatusCode, type[ServiceError]] = {
    grpc.StatusCode.OK: ServiceError,
    grpc.StatusCode.CANCELLED: Unavailable,
    grpc.StatusCode.UNKNOWN: ServiceError,
    grpc.StatusCode.INVALID_ARGUMENT: BadRequest,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlinePassed,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.ALREADY_EXISTS: BadRequest,
    grpc.StatusCode.PERMISSION_DENIED: Misconfigured,
    grpc.StatusCode.RESOURCE_EXHAUSTED: BadRequest,  # a message larger than the other side takes
    grpc.StatusCode.FAILED_PRECONDITION: Misconfigured,
    grpc.StatusCode.ABORTED: Unavailable,
    grpc.StatusCode.OUT_OF_RANGE: BadRequest,
    grpc.StatusCode.UNIMPLEMENTED: Misconfigured,  # a service of another version
    grpc.StatusCode.INTERNAL: ServiceError,
    grpc.StatusCode.UNAVAILABLE: Unavailable,
    grpc.StatusCode.DATA_LOSS: ServiceError,
    grpc.StatusCode.UNAUTHENTICATED: Misconfigured,
}


@contextmanager
def translated() -> Iterator[None]:
    """Around each RPC. Cancelling the task that waits stays what it is."""
    try:
        yield
    except grpc.aio.AioRpcError as error:
        raise error_of(error.code(), error.details()) from error


def error_of(code: grpc.StatusCode, details: str | None) -> ServiceError:
    return TABLE[code](details or f"The service ended the call with {code.name} and no word about why.")
