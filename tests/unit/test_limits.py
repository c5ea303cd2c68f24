import math

import pytest

from executor.model.errors import ErrorCode, InvocationError
from executor.model.limits import LEAST, LIMIT_NAMES, MOST, Limits


def test_every_default_is_positive_and_finite():
    limits = Limits()
    assert all(0 < getattr(limits, name) < math.inf for name in LIMIT_NAMES)


@pytest.mark.parametrize("value", [0, -1, -0.5, math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", LIMIT_NAMES)
def test_a_limit_that_is_not_positive_and_finite_is_refused_by_name(name, value):
    with pytest.raises(InvocationError) as caught:
        Limits().lowered_by({name: value})
    assert caught.value.detail.code is ErrorCode.SCHEMA_VIOLATION
    assert [v.pointer for v in caught.value.detail.violations] == [f"/limits/{name}"]


@pytest.mark.parametrize("name", LIMIT_NAMES)
def test_a_limit_above_the_tools_own_is_clamped_to_it(name):
    assert Limits().lowered_by({name: 1e18}) == Limits()


@pytest.mark.parametrize("name", LIMIT_NAMES)
def test_a_limit_can_be_lowered(name):
    half = getattr(Limits(), name) / 2
    assert getattr(Limits().lowered_by({name: half}), name) == pytest.approx(half)


def test_a_fraction_of_a_whole_limit_becomes_one_and_never_zero():
    assert Limits().lowered_by({"processes": 0.25}).processes == 1


@pytest.mark.parametrize("name", LEAST)
def test_less_than_a_sandbox_needs_is_refused_naming_the_least(name):
    with pytest.raises(InvocationError) as caught:
        Limits().lowered_by({name: LEAST[name] * 0.9})
    [violation] = caught.value.detail.violations
    assert (violation.pointer, violation.keyword) == (f"/limits/{name}", "minimum")
    assert f" {LEAST[name]}," in violation.message
    assert getattr(Limits().lowered_by({name: LEAST[name]}), name) == LEAST[name]


def test_a_tools_whole_number_of_seconds_can_be_lowered_to_a_fraction():
    assert Limits(wall_seconds=7).lowered_by({"wall_seconds": 3.5}).wall_seconds == 3.5


def test_every_wrong_limit_is_named_at_once():
    with pytest.raises(InvocationError) as caught:
        Limits().lowered_by({"memory": 5, "processes": 0})
    assert [v.pointer for v in caught.value.detail.violations] == ["/limits/memory", "/limits/processes"]


def test_every_default_and_every_least_is_within_the_most_that_a_manifest_may_allow():
    assert set(MOST) == set(LIMIT_NAMES)
    assert set(LEAST) <= set(LIMIT_NAMES)
    assert all(LEAST.get(name, 0) < getattr(Limits(), name) <= most < 2**63 for name, most in MOST.items())


@pytest.mark.parametrize("name", LIMIT_NAMES)
def test_more_than_a_manifest_may_allow_is_still_clamped_to_the_tools_own(name):
    assert Limits().lowered_by({name: MOST[name] * 2}) == Limits()
