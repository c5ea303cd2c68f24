import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor.bench.figures import REST, SPREAD, TOTAL, Block, Sample, figures, percentile

LATENCIES = st.lists(st.floats(min_value=0, max_value=1e6), min_size=1)
PERCENTS = st.floats(min_value=0, max_value=100)


def block(*latencies, seconds=1.0):
    return Block(samples=tuple(Sample(latency_ms=latency) for latency in latencies), seconds=seconds)


def test_a_percentile_is_the_nearest_rank():
    values = list(range(1, 101))
    assert [percentile(values, p) for p in (50, 95, 99, 100)] == [50, 95, 99, 100]


def test_a_percentile_of_few_values_is_the_highest_one():
    assert percentile([3.0, 1.0, 2.0], 99) == 3.0


def test_a_percentile_of_nothing_is_refused():
    with pytest.raises(ValueError, match="of nothing"):
        percentile([], 50)


@given(LATENCIES, PERCENTS)
def test_a_percentile_is_one_of_the_values_and_enough_of_them_are_at_most_it(values, percent):
    found = percentile(values, percent)
    assert found in values
    assert sum(value <= found for value in values) >= percent / 100 * len(values) - 1e-6


@given(LATENCIES, PERCENTS, PERCENTS)
def test_a_higher_percent_never_gives_less(values, one, other):
    low, high = sorted((one, other))
    assert percentile(values, low) <= percentile(values, high)


def test_the_rate_is_calls_over_the_time_in_which_they_were_in_flight():
    found = figures([block(1, 2, seconds=0.5), block(3, 4, seconds=1.5)])
    assert (found.samples, found.rate) == (4, 2.0)


def test_a_failed_call_counts_as_a_failure_and_in_no_other_figure():
    failed = Block(samples=(Sample(latency_ms=900, failure="exit status 1"),), seconds=0.0)
    found = figures([block(1, 2, 3), failed])
    assert (found.samples, found.failures, found.max_ms, found.first_failure) == (3, 1, 3, "exit status 1")


def test_where_all_calls_failed_there_is_no_latency():
    found = figures(
        [Block(samples=(Sample(latency_ms=1, failure="no"), Sample(latency_ms=2, failure="nor")), seconds=1)]
    )
    assert (found.samples, found.failures, found.p50_ms, found.rate) == (0, 2, None, None)
    assert found.first_failure == "no"


def test_what_the_parts_do_not_tell_is_the_rest():
    parts = {"queue_ms": 1.0, "wall_ms": 9.0}
    found = figures([Block(samples=(Sample(latency_ms=12.5, parts=parts),), seconds=1)])
    assert found.parts_p50 == {**parts, REST: 2.5}


def test_where_the_server_tells_its_own_time_the_rest_is_what_lies_outside_of_it():
    parts = {"wall_ms": 9.0, TOTAL: 11.0}
    found = figures([Block(samples=(Sample(latency_ms=12.5, parts=parts),), seconds=1)])
    assert found.parts_p50 == {**parts, REST: 1.5}


def test_a_part_that_only_some_calls_tell_has_the_median_of_those():
    samples = (Sample(latency_ms=1, parts={"a_ms": 1.0}), Sample(latency_ms=1, parts={"a_ms": 1.0, "new_ms": 0.5}))
    assert figures([Block(samples=samples, seconds=1)]).parts_p50["new_ms"] == 0.5


def test_the_spread_has_a_value_for_each_of_its_percentiles():
    found = figures([block(*range(1, 101))])
    assert found.spread_ms == SPREAD


def test_a_peer_that_tells_no_parts_has_none():
    assert figures([block(1)]).parts_p50 == {}
