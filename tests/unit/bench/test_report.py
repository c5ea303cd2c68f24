import json
from dataclasses import replace

import pytest

from executor.bench.figures import REST, Figures
from executor.bench.goals import Bound, Verdict
from executor.bench.lines import Absence, CpuCost, Line, Parked, with_costs
from executor.bench.names import Gap
from executor.bench.report import Report, as_json, as_markdown, breakdown, everything, glance, markdown

FIGURES = Figures(samples=3, failures=0, p50_ms=1.23456, p95_ms=20.5, p99_ms=300.4, max_ms=301.0, rate=77.7)
LINE = Line(peer="bwrap", row="true", in_flight=1, gap=Gap.PAUSES, figures=FIGURES)
MET = Verdict(name="fast", value=1.0, goal=2.0, bound=Bound.AT_MOST, unit="x")
REPORT = Report(machine={"cpus": 2}, posture={"backend": "native"}, lines=(LINE,), absences=(), verdicts=(MET,))


def failing(line):
    return replace(line, figures=replace(line.figures, failures=2, first_failure="exit status 1"))


def test_a_run_without_failures_that_meets_its_goals_has_neither_failed_nor_missed():
    assert not REPORT.failed
    assert not REPORT.missed


@pytest.mark.parametrize(
    "report", [replace(REPORT, lines=(failing(LINE),)), replace(REPORT, troubles=("the server ended with status 1",))]
)
def test_a_call_that_failed_and_anything_left_behind_make_a_run_failed(report):
    assert report.failed


@pytest.mark.parametrize(
    "verdict", [replace(MET, value=2.1), replace(MET, value=None), replace(MET, bound=Bound.AT_LEAST)]
)
def test_a_goal_that_is_not_met_is_missed_and_no_failure(verdict):
    report = replace(REPORT, verdicts=(MET, verdict))
    assert report.missed
    assert not report.failed


def test_the_json_of_a_goal_says_which_way_it_goes():
    missed = replace(MET, value=None, bound=Bound.AT_LEAST, why="no engine")
    met, other = as_json(replace(REPORT, verdicts=(MET, missed)))["goals"]
    assert met == {"name": "fast", "value": 1.0, "goal": 2.0, "at_most": 2.0, "unit": "x", "met": True, "why": None}
    assert (other["at_least"], other["met"], other["why"]) == (2.0, False, "no engine")


def test_the_json_has_the_figures_of_each_line():
    (row,) = json.loads(json.dumps(as_json(REPORT)))["rows"]
    assert (row["peer"], row["row"], row["in_flight"], row["gap"]) == ("bwrap", "true", 1, "20-50 ms")
    assert (row["p50_ms"], row["rate"], row["cpu_ms"], row["samples"]) == (1.2346, 77.7, None, 3)


def test_the_json_names_what_was_not_measured_and_why():
    report = replace(REPORT, absences=(Absence(peer="docker run", row=None, reason="no engine answers"),))
    assert as_json(report)["absences"] == [{"peer": "docker run", "row": None, "reason": "no engine answers"}]


def test_the_text_tells_failures_absences_and_missed_goals():
    report = replace(
        REPORT,
        lines=(failing(LINE),),
        absences=(Absence(peer="bwrap", row="files", reason="has none"),),
        verdicts=(replace(MET, value=3.0), replace(MET, name="small", value=None, why="run as root")),
        troubles=("it did not stop",),
    )
    text = as_markdown(report)
    assert "bwrap `true` 1 20-50 ms: 2 failed, the first: exit status 1" in text
    assert "- bwrap, `files`: has none" in text
    assert "| fast  | 3.00 x       | at most 2.00 x | MISSED |" in text
    assert "- small: run as root" in text
    assert "- it did not stop" in text


def test_what_has_no_lines_has_no_title():
    assert "Failures" not in as_markdown(REPORT)
    assert "Not measured" not in as_markdown(REPORT)


def test_the_glance_has_single_calls_with_pauses_alone():
    lines = [LINE, replace(LINE, row="bash"), replace(LINE, peer="unshare"), replace(LINE, gap=Gap.NONE, peer="other")]
    assert glance(lines) == [
        ["peer", "`true`", "`bash`"],
        ["bwrap", "1.23 / 300", "1.23 / 300"],
        ["unshare", "1.23 / 300", "-"],
    ]


def test_the_breakdown_has_the_parts_of_those_who_tell_them():
    parts = {"queue_ms": 0.5, "new_ms": 0.25, REST: 2.0}
    ours = replace(LINE, peer="executor", figures=replace(FIGURES, parts_p50=parts))
    head, *lines = breakdown([LINE, ours])
    assert head[4:] == ["queue", "new", "rest", "p50"]
    assert lines == [["executor", "`true`", "1", "20-50 ms", "0.50", "0.25", "2.00", "1.23"]]
    (told,) = as_json(replace(REPORT, lines=(LINE, ours)))["breakdown"]
    assert (told["row"], told["parts_p50"]) == ("true", parts)


def test_a_table_of_everything_shows_three_digits_and_a_dash_for_what_is_missing():
    assert everything([LINE])[1][4:] == ["1.23", "20.5", "300", "301", "77.7", "-", "-", "3", "0"]


def test_columns_are_padded_to_their_widest_cell():
    assert markdown([["a", "b"], ["long", "1"]]) == "| a    | b |\n| ---- | - |\n| long | 1 |"


def test_a_cost_goes_to_the_line_of_single_calls_with_pauses():
    cost = CpuCost(total_ms=3.0, kernel_threads_ms=1.0, samples=40)
    others = (replace(LINE, gap=Gap.NONE), replace(LINE, in_flight=8), replace(LINE, row="bash"))
    found = with_costs([LINE, *others], {("bwrap", "true"): cost})
    assert [line.cpu for line in found] == [cost, None, None, None]
    assert as_json(replace(REPORT, lines=found))["rows"][0]["cpu_kernel_threads_ms"] == 1.0


def test_the_memory_of_parked_sandboxes_is_told_by_kind():
    report = replace(REPORT, parked=(Parked(kind="bare", sandboxes=2, pss_mib=1.53, private_mib=0.5),))
    assert as_json(report)["idle_memory"] == [{"kind": "bare", "sandboxes": 2, "pss_mib": 1.53, "private_mib": 0.5}]
    assert "| bare | 2         | 1.53    | 0.50        |" in as_markdown(report)
