import pytest

from executor.admission.deadline import ANSWER_SECONDS, within_deadline
from executor.model.errors import ErrorCode, InvocationError
from executor.model.limits import Limits


def test_without_a_deadline_the_tools_own_limit_holds():
    limits = Limits(wall_seconds=7)
    assert within_deadline(limits, None, now=100.0) == limits


def test_a_deadline_beyond_the_tools_limit_changes_nothing():
    assert within_deadline(Limits(wall_seconds=7), 1000.0, now=100.0).wall_seconds == 7


def test_a_near_deadline_lowers_the_wall_time_and_keeps_time_for_the_answer():
    assert within_deadline(Limits(wall_seconds=7), 104.0, now=100.0).wall_seconds == pytest.approx(4 - ANSWER_SECONDS)


def test_of_a_very_near_deadline_a_tenth_is_kept_for_the_answer():
    assert within_deadline(Limits(), 100.1, now=100.0).wall_seconds == pytest.approx(0.09)


@pytest.mark.parametrize("left", [0.001, 0.0, -5.0])
def test_a_deadline_that_is_over_starts_nothing(left):
    with pytest.raises(InvocationError) as caught:
        within_deadline(Limits(), 100.0 + left, now=100.0)
    assert caught.value.detail.code is ErrorCode.TIMEOUT
    assert caught.value.detail.retryable
