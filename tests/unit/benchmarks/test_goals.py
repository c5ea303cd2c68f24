import pytest

from benchmarks.harness.figures import Figures
from benchmarks.harness.goals import judge
from benchmarks.harness.lines import BWRAP, OURS, Line
from benchmarks.harness.plan import Gap


def line(peer, p50_ms, row="true", in_flight=1, gap=Gap.PAUSES):
    return Line(peer=peer, row=row, in_flight=in_flight, gap=gap, figures=Figures(samples=9, failures=0, p50_ms=p50_ms))


def test_the_value_is_what_a_call_of_ours_takes_longer_than_one_of_bwrap():
    (verdict,) = judge([line(OURS, 12.5), line(BWRAP, 6.0)])
    assert (verdict.value, verdict.met) == (6.5, True)


@pytest.mark.parametrize(("ours_ms", "met"), [(16.0, True), (16.1, False)])
def test_exactly_the_goal_is_met_and_more_is_not(ours_ms, met):
    (verdict,) = judge([line(OURS, ours_ms), line(BWRAP, 6.0)])
    assert verdict.met is met


def test_a_goal_that_was_not_measured_is_not_met():
    (verdict,) = judge([line(OURS, 1.0)])
    assert (verdict.value, verdict.met) == (None, False)


def test_a_goal_is_not_measured_where_every_call_failed():
    (verdict,) = judge([line(OURS, None), line(BWRAP, 6.0)])
    assert verdict.met is False


def test_other_rows_gaps_and_numbers_in_flight_do_not_count():
    others = [line(OURS, 99.0, row="bash"), line(OURS, 99.0, in_flight=8), line(OURS, 99.0, gap=Gap.NONE)]
    (verdict,) = judge([*others, line(OURS, 7.0), line(BWRAP, 6.0)])
    assert verdict.value == 1.0
