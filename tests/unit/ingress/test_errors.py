import grpc
import pytest
from google.rpc import error_details_pb2

from executor.codec import MalformedRequest
from executor.ingress.errors import TABLE, Draining, internal, status_of
from executor.model.errors import BadRequest, Misconfigured, NotFound, ServiceError, Unavailable


def descendants(kind: type) -> set[type]:
    return {kind}.union(*map(descendants, kind.__subclasses__()))


def test_every_service_error_has_a_row_of_its_own_or_of_its_parent() -> None:
    from_the_tree = {kind for kind in descendants(ServiceError) if kind.__module__ == ServiceError.__module__}
    assert from_the_tree <= set(TABLE)
    for kind in descendants(ServiceError):
        assert next(parent for parent in kind.__mro__ if parent in TABLE)


@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [
        (Unavailable("x"), grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE"),
        (Draining("x"), grpc.StatusCode.UNAVAILABLE, "DRAINING"),
        (NotFound("x"), grpc.StatusCode.NOT_FOUND, "NOT_FOUND"),
        (BadRequest("x"), grpc.StatusCode.INVALID_ARGUMENT, "BAD_REQUEST"),
        (MalformedRequest("a", "x"), grpc.StatusCode.INVALID_ARGUMENT, "BAD_REQUEST"),
        (Misconfigured("x"), grpc.StatusCode.FAILED_PRECONDITION, "MISCONFIGURED"),
        (ServiceError("x"), grpc.StatusCode.INTERNAL, "INTERNAL"),
    ],
)
def test_an_error_has_its_status_and_reason(error: ServiceError, code: grpc.StatusCode, reason: str) -> None:
    status = status_of(error)
    info = error_details_pb2.ErrorInfo()
    assert status.code == code.value[0]
    assert status.message == str(error)
    assert status.details[0].Unpack(info)
    assert (info.reason, info.domain) == (reason, "executor")


def test_only_what_may_be_tried_again_says_when() -> None:
    retries = {
        kind: [detail for detail in status_of(kind("x")).details if detail.Is(error_details_pb2.RetryInfo.DESCRIPTOR)]
        for kind in TABLE
    }
    assert {kind for kind, found in retries.items() if found} == {Unavailable, Draining}


def test_a_message_that_utf8_cannot_hold_is_still_a_status() -> None:
    assert status_of(MalformedRequest("a", "\ud800")).message == "a: \ufffd"


def test_an_unforeseen_failure_shows_its_id_alone() -> None:
    status = internal("inc_1")
    assert "inc_1" in status.message
    assert status.code == grpc.StatusCode.INTERNAL.value[0]
