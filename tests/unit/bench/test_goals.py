from dataclasses import replace

import pytest

from executor.bench.figures import Figures
from executor.bench.goals import Evidence, Figure, judge, quantities
from executor.bench.lines import Absence, CpuCost, Line, Parked
from executor.bench.names import (
    BARE,
    BWRAP,
    DATA_PYTHON,
    DOCKER_RUN,
    EVERYBODY,
    IDLE_MEMORY,
    OURS,
    SPAWN,
    UNSHARE,
    Gap,
)

NOTHING = Evidence(lines=(), parked=(), absences=())
OF_BWRAP = "p50 of `true`: executor / bubblewrap"


def line(peer, p50_ms=None, row="true", in_flight=1, gap=Gap.PAUSES, **figures):
    found = Figures(samples=9, failures=0, p50_ms=p50_ms, **figures)
    return Line(peer=peer, row=row, in_flight=in_flight, gap=gap, figures=found)


def verdict(name, *lines, absences=(), parked=()):
    evidence = Evidence(lines=lines, parked=parked, absences=absences)
    return next(one for one in judge(evidence) if one.name == name)


def test_no_two_goals_have_the_same_name():
    names = [one.name for one in judge(NOTHING)]
    assert len(set(names)) == len(names) == 17


def test_a_ratio_is_ours_over_that_of_the_peer():
    found = verdict(OF_BWRAP, line(OURS, 3.0), line(BWRAP, 6.0))
    assert (found.value, found.unit, found.met, found.why) == (0.5, "x", False, None)


@pytest.mark.parametrize(("ours_ms", "met"), [(4.0, True), (4.1, False)])
def test_exactly_the_goal_is_met_and_more_is_not(ours_ms, met):
    assert verdict(OF_BWRAP, line(OURS, ours_ms), line(BWRAP, 10.0)).met is met


@pytest.mark.parametrize(("rate", "met"), [(219.9, False), (220.0, True)])
def test_a_rate_must_be_at_least_its_goal(rate, met):
    lines = [line(peer, 1.0, in_flight=8, gap=Gap.NONE, rate=one) for peer, one in ((OURS, rate), (BWRAP, 100.0))]
    assert verdict("rate of `true` with 8 in flight: executor / bubblewrap", *lines).met is met


def test_a_tail_is_compared_with_the_median_of_the_same_line():
    found = verdict("p99 of `true`: executor / p50 of executor", line(OURS, 2.0, p99_ms=7.0))
    assert (found.value, found.met) == (3.5, True)


def test_processor_time_is_that_with_the_drain():
    lines = [
        replace(line(peer, 1.0), cpu=CpuCost(total_ms=ms, kernel_threads_ms=0.5, samples=9))
        for peer, ms in ((OURS, 6.0), (UNSHARE, 4.0))
    ]
    assert verdict("CPU-ms with drain of `true`: executor / unshare", *lines).value == 1.5


def test_processor_time_that_is_mostly_of_kernel_threads_is_no_measure_of_a_call():
    lines = [
        replace(line(peer, 1.0), cpu=CpuCost(total_ms=159.0, kernel_threads_ms=kernel, samples=9))
        for peer, kernel in ((OURS, 148.0), (UNSHARE, 2.0))
    ]
    found = verdict("CPU-ms with drain of `true`: executor / unshare", *lines)
    assert (found.value, found.met) == (None, False)
    assert "busy with the work of others" in found.why


def test_memory_is_judged_by_kind():
    parked = (
        Parked(kind=BARE, sandboxes=2, pss_mib=1.5, private_mib=1),
        Parked(kind=DATA_PYTHON, sandboxes=2, pss_mib=9.0, private_mib=1),
    )
    bare = verdict("idle memory of a parked sandbox, bare (PSS)", parked=parked)
    data = verdict("idle memory of a parked sandbox, data Python (PSS)", parked=parked)
    assert [(one.value, one.unit, one.met) for one in (bare, data)] == [(1.5, "MiB", True), (9.0, "MiB", False)]


def test_where_nothing_was_measured_no_goal_is_met_and_each_says_why():
    found = judge(NOTHING)
    assert not any(one.met for one in found)
    assert all(one.value is None and one.why for one in found)


def test_the_reason_is_that_of_the_peer_that_is_absent():
    absent = Absence(peer=DOCKER_RUN, row=None, reason="no engine answers")
    found = verdict("p50 of `true`: executor / docker run", line(OURS, 1.0), absences=[absent])
    assert found.why == "p50 of `true` by docker run: no engine answers"


def test_the_reason_may_be_that_nobody_can_run_the_row():
    absent = Absence(peer=EVERYBODY, row="pandas group-by", reason="the image is not built")
    found = verdict("p50 of `pandas group-by`: executor / posix_spawn", absences=[absent])
    assert found.why == (
        "p50 of `pandas group-by` by executor: the image is not built; "
        "p50 of `pandas group-by` by posix_spawn: the image is not built"
    )


def test_where_every_call_failed_the_reason_is_the_first_failure():
    failed = Line(
        peer=OURS,
        row="true",
        in_flight=1,
        gap=Gap.PAUSES,
        figures=Figures(samples=0, failures=9, first_failure="exit status 1"),
    )
    found = verdict(OF_BWRAP, failed, line(BWRAP, 6.0))
    assert (found.met, found.why) == (False, "p50 of `true` by executor: exit status 1")


def test_where_memory_cannot_be_read_the_goal_says_so():
    absent = Absence(peer=OURS, row=IDLE_MEMORY, reason="run as root")
    assert verdict("idle memory of a parked sandbox, bare (PSS)", absences=[absent]).why == "run as root"


def test_other_rows_gaps_and_numbers_in_flight_do_not_count():
    others = [line(OURS, 99.0, row="bash"), line(OURS, 99.0, in_flight=8), line(OURS, 99.0, gap=Gap.NONE)]
    assert verdict(OF_BWRAP, *others, line(OURS, 7.0), line(BWRAP, 7.0)).value == 1.0


def test_every_goal_compares_ours_with_a_peer_or_with_itself():
    found = quantities()
    assert [quantity.peer for quantity in found[::2]] == [OURS] * (len(found) // 2)
    assert {quantity.peer for quantity in found[1::2]} == {OURS, SPAWN, BWRAP, UNSHARE, DOCKER_RUN}
    assert all(quantity.gap is Gap.NONE for quantity in found if quantity.figure is Figure.RATE)
