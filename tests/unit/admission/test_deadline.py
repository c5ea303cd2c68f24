import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor.admission.deadline import (
    ANSWER_SECONDS,
    LEAST_ANSWER_SECONDS,
    LEAST_SECONDS,
    last_start,
    within_deadline,
)
from executor.model.errors import EffectState, ErrorCode, InvocationError
from executor.model.limits import Limits


def test_without_a_deadline_the_tools_own_limit_holds():
    limits = Limits(wall_seconds=7)
    assert within_deadline(limits, None, now=100.0) == limits


def test_a_deadline_beyond_the_tools_limit_changes_nothing():
    assert within_deadline(Limits(wall_seconds=7), 1000.0, now=100.0).wall_seconds == 7


def test_a_near_deadline_lowers_the_wall_time_and_keeps_time_for_the_answer():
    assert within_deadline(Limits(wall_seconds=7), 104.0, now=100.0).wall_seconds == pytest.approx(4 - ANSWER_SECONDS)


def test_of_a_near_deadline_a_tenth_is_kept_for_the_answer():
    assert within_deadline(Limits(), 101.0, now=100.0).wall_seconds == pytest.approx(0.9)


def test_however_near_the_deadline_the_answer_has_its_time():
    limits = within_deadline(Limits(), 100.1, now=100.0)
    assert limits.wall_seconds == pytest.approx(0.1 - LEAST_ANSWER_SECONDS)


@pytest.mark.parametrize("left", [0.04, 0.03, 0.025, 0.01, 0.001, 0.0, -5.0])
def test_a_deadline_too_near_for_a_run_and_its_answer_starts_nothing(left):
    with pytest.raises(InvocationError) as caught:
        within_deadline(Limits(), 100.0 + left, now=100.0)
    detail = caught.value.detail
    assert (detail.code, detail.effect, detail.retryable) == (ErrorCode.TIMEOUT, EffectState.NONE, True)
    assert "nothing ran" in detail.message


@given(st.floats(-10, 100))
def test_what_is_started_leaves_the_answer_its_time_and_the_last_start_is_the_last(left):
    limits = Limits(wall_seconds=1000)
    last = last_start(100.0 + left, 100.0)
    assert last <= 100.0 + left - LEAST_ANSWER_SECONDS - LEAST_SECONDS
    if last > 100.0 + 1e-6:
        allowed = within_deadline(limits, 100.0 + left, now=100.0).wall_seconds
        assert LEAST_SECONDS <= allowed <= left - LEAST_ANSWER_SECONDS + 1e-6
    elif last < 100.0 - 1e-6:
        with pytest.raises(InvocationError):
            within_deadline(limits, 100.0 + left, now=100.0)
