from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor.bench.goals import Figure, quantities
from executor.bench.names import OURS, UNSHARE, Gap
from executor.bench.plan import GAP_SECONDS, IN_FLIGHT, full, pauses, quick, turns
from executor.bench.rows import ROWS

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


def test_a_full_plan_measures_each_row_at_each_number_in_flight_with_and_without_gaps():
    found = {(cell.row.name, cell.in_flight, cell.gap) for cell in full(ROWS).cells}
    wanted = {(row.name, count, gap) for row in ROWS for count in IN_FLIGHT for gap in Gap}
    too_much = {(row.name, 32, Gap.PAUSES) for row in ROWS if row.heavy}
    assert wanted - too_much == found


def test_a_salvo_has_as_many_calls_as_are_in_flight():
    assert all(cell.calls == cell.in_flight for cell in full(ROWS).cells if cell.gap is Gap.PAUSES)


@pytest.mark.parametrize(("plan", "least_seconds"), [(full(ROWS), 1.5), (quick(ROWS), 1.0)])
def test_a_loop_lasts_long_enough_to_be_sustained(plan, least_seconds):
    loops = [cell for cell in plan.cells if cell.gap is Gap.NONE]
    assert loops
    assert all(cell.lasting_seconds >= least_seconds and not cell.calls for cell in loops)


def test_fresh_processes_of_a_heavy_row_are_never_so_many_that_they_fill_the_memory():
    crowds = [cell for cell in full(ROWS).cells if cell.row.heavy and cell.in_flight > 8]
    assert crowds
    assert all(cell.peers == {OURS} for cell in crowds)


def test_the_time_that_a_quick_plan_may_take_leaves_room_for_start_and_end():
    plan = quick(ROWS)
    drains = plan.drain_seconds * (2 + len(plan.probes[0].peers))  # the idle rate takes two of them
    assert sum(cell.seconds for cell in plan.cells) + drains <= 38


@pytest.mark.parametrize("plan", [full(ROWS), quick(ROWS)])
def test_a_plan_measures_all_that_goals_are_judged_by(plan):
    probes = [(probe.row.name, peer) for probe in plan.probes for peer in (OURS, UNSHARE) if _asks(probe, peer)]
    cells = [(cell.row.name, cell.in_flight, cell.gap) for cell in plan.cells]
    for quantity in quantities():
        if quantity.figure is Figure.CPU:
            assert (quantity.row, quantity.peer) in probes
        else:
            at = cells.index((quantity.row, quantity.in_flight, quantity.gap))
            assert _asks(plan.cells[at], quantity.peer)


def _asks(part, peer):
    return part.peers is None or peer in part.peers


def test_a_plan_within_less_time_has_the_same_cells_and_shorter_loops():
    whole = quick(ROWS)
    small = whole.within(2.0)
    assert [(cell.row, cell.in_flight, cell.gap) for cell in small.cells] == [
        (cell.row, cell.in_flight, cell.gap) for cell in whole.cells
    ]
    assert sum(cell.seconds for cell in small.cells) == pytest.approx(2.0)
    assert small.drain_seconds < whole.drain_seconds
    assert all(probe.calls >= 1 for probe in small.probes)


def test_a_plan_within_more_time_than_it_takes_is_itself():
    assert quick(ROWS).within(1000) == quick(ROWS)


def test_a_plan_takes_a_peer_where_any_of_its_cells_does():
    plan = quick(ROWS)
    group_by = next(row for row in ROWS if row.name == "pandas group-by")
    assert plan.takes(OURS, group_by)
    assert not plan.takes(UNSHARE, group_by)
