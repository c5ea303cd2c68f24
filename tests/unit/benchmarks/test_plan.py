from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.harness.plan import GAP_SECONDS, IN_FLIGHT, Gap, full, pauses, quick, turns
from benchmarks.harness.rows import ROWS, Depth

EVERY = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 5), min_size=1)


@given(EVERY, st.integers(0, 40), st.integers())
def test_each_peer_has_its_turn_once_in_each_of_its_rounds(every, rounds, seed):
    order = list(turns(every, rounds, seed))
    assert len(order) == rounds
    for number, present in enumerate(order):
        assert sorted(present) == sorted(name for name, step in every.items() if number % step == 0)


@given(EVERY, st.integers(0, 40), st.integers())
def test_the_same_seed_gives_the_same_order(every, rounds, seed):
    assert list(turns(every, rounds, seed)) == list(turns(every, rounds, seed))


def test_no_peer_always_follows_the_same_other_one():
    order = list(turns({"a": 1, "b": 1, "c": 1}, 50, seed=1))
    assert len(set(order)) == 6


def test_pauses_are_random_and_within_their_bounds():
    found = list(islice(pauses(3), 200))
    assert all(GAP_SECONDS[0] <= pause <= GAP_SECONDS[1] for pause in found)
    assert len(set(found)) > 100
    assert found == list(islice(pauses(3), 200))


def test_a_full_plan_measures_each_deep_row_at_each_number_in_flight_with_and_without_gaps():
    found = {(cell.row.name, cell.in_flight, cell.gap) for cell in full(ROWS).cells}
    deep = [row.name for row in ROWS if row.depth is not Depth.SHORT]
    assert {(name, count, gap) for name in deep for count in IN_FLIGHT for gap in Gap} <= found


def test_a_full_plan_leaves_no_row_out():
    assert {row.name for row in full(ROWS).rows} == {row.name for row in ROWS}


def test_a_salvo_has_as_many_calls_as_are_in_flight():
    assert all(cell.calls == cell.in_flight for cell in full(ROWS).cells if cell.gap is Gap.PAUSES)


def test_a_loop_has_enough_calls_to_fill_what_is_in_flight_twice():
    loops = [cell for cell in (*full(ROWS).cells, *quick(ROWS, frozenset()).cells) if cell.gap is Gap.NONE]
    assert loops
    assert all(cell.calls >= 2 * cell.in_flight for cell in loops)


def test_the_time_that_a_quick_plan_may_take_leaves_room_for_start_and_end():
    plan = quick(ROWS, frozenset({"one", "other"}))
    drains = 3.0 * (2 + 2)  # the idle rate and its rest, and one for each peer probed
    assert sum(cell.seconds for cell in plan.cells) + drains <= 45


def test_a_quick_plan_has_single_calls_with_pauses_of_every_row_that_a_goal_hangs_on():
    cells = [cell for cell in quick(ROWS, frozenset()).cells if cell.in_flight == 1 and cell.gap is Gap.PAUSES]
    assert {row.name for row in ROWS if row.depth is Depth.GOAL} <= {cell.row.name for cell in cells}
