import grpc
import pytest

from executor.client.errors import TABLE, DeadlinePassed, error_of
from executor.ingress.errors import TABLE as SERVER_TABLE
from executor.model.errors import ServiceError


def test_every_status_has_an_error() -> None:
    assert set(TABLE) == set(grpc.StatusCode)


@pytest.mark.parametrize("kind", SERVER_TABLE)
def test_an_error_of_the_service_comes_back_as_itself_or_its_parent(kind: type[ServiceError]) -> None:
    code = next(code for code in grpc.StatusCode if code.value[0] == SERVER_TABLE[kind].code)
    assert issubclass(kind, TABLE[code])


def test_the_words_of_the_service_are_kept() -> None:
    error = error_of(grpc.StatusCode.DEADLINE_EXCEEDED, "too late")
    assert type(error) is DeadlinePassed
    assert str(error) == "too late"


def test_a_status_without_words_is_named() -> None:
    assert "DATA_LOSS" in str(error_of(grpc.StatusCode.DATA_LOSS, ""))
