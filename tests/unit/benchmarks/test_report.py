import json
from dataclasses import replace

import pytest

from benchmarks.harness.figures import PARTS, REST, Figures
from benchmarks.harness.goals import Verdict
from benchmarks.harness.lines import Absence, CpuCost, Line, with_costs
from benchmarks.harness.plan import Gap
from benchmarks.harness.report import Report, as_json, as_markdown, breakdown, everything, glance, markdown

FIGURES = Figures(samples=3, failures=0, p50_ms=1.23456, p95_ms=20.5, p99_ms=300.4, max_ms=301.0, rate=77.7)
LINE = Line(peer="bwrap", row="true", in_flight=1, gap=Gap.PAUSES, figures=FIGURES)
MET = Verdict(name="fast", value=1.0, goal=2.0, unit="ms")
REPORT = Report(machine={"cpus": 2}, posture={"backend": "native"}, lines=(LINE,), absences=(), verdicts=(MET,))


def failing(line):
    return replace(line, figures=replace(line.figures, failures=2, first_failure="exit status 1"))


def test_a_run_is_good_where_goals_are_met_and_nothing_failed():
    assert REPORT.good


@pytest.mark.parametrize(
    "report",
    [
        replace(REPORT, lines=(failing(LINE),)),
        replace(REPORT, troubles=("the server ended with status 1",)),
        replace(REPORT, verdicts=(MET, replace(MET, value=2.1))),
        replace(REPORT, verdicts=(replace(MET, value=None),)),
    ],
)
def test_a_failure_a_trouble_or_a_missed_goal_makes_a_run_bad(report):
    assert not report.good


def test_the_json_has_the_figures_of_each_line():
    (row,) = json.loads(json.dumps(as_json(REPORT)))["rows"]
    assert (row["peer"], row["row"], row["in_flight"], row["gap"]) == ("bwrap", "true", 1, "20-50 ms")
    assert (row["p50_ms"], row["rate"], row["cpu_ms"], row["samples"]) == (1.235, 77.7, None, 3)


def test_the_json_names_what_was_not_measured_and_why():
    report = replace(REPORT, absences=(Absence(peer="docker run", row=None, reason="no engine answers"),))
    assert as_json(report)["absent"] == [{"peer": "docker run", "row": None, "reason": "no engine answers"}]


def test_the_text_tells_failures_absences_and_missed_goals():
    report = replace(
        REPORT,
        lines=(failing(LINE),),
        absences=(Absence(peer="bwrap", row="files", reason="has none"),),
        verdicts=(replace(MET, value=3.0),),
        troubles=("it did not stop",),
    )
    text = as_markdown(report)
    assert "bwrap `true` 1 20-50 ms: 2 failed, the first: exit status 1" in text
    assert "- bwrap, `files`: has none" in text
    assert "- MISSED: fast: 3.00 ms (at most 2 ms)" in text
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
    parts = {**dict.fromkeys(PARTS, 0.5), REST: 2.0}
    ours = replace(LINE, peer="executor", figures=replace(FIGURES, parts_p50=parts))
    head, *lines = breakdown([LINE, ours])
    assert head[4:] == ["queue", "setup", "wall", "teardown", "rest", "p50"]
    assert lines == [["executor", "`true`", "1", "20-50 ms", "0.50", "0.50", "0.50", "0.50", "2.00", "1.23"]]


def test_a_table_of_everything_shows_three_digits_and_a_dash_for_what_is_missing():
    assert everything([LINE])[1][4:] == ["1.23", "20.5", "300", "301", "77.7", "-", "3", "0"]


def test_columns_are_padded_to_their_widest_cell():
    assert markdown([["a", "b"], ["long", "1"]]) == "| a    | b |\n| ---- | - |\n| long | 1 |"


def test_a_cost_goes_to_the_line_of_single_calls_without_gaps():
    cost = CpuCost(total_ms=3.0, kernel_threads_ms=1.0, samples=40)
    loop = replace(LINE, gap=Gap.NONE)
    found = with_costs([LINE, loop, replace(loop, in_flight=8), replace(loop, row="bash")], {("bwrap", "true"): cost})
    assert [line.cpu for line in found] == [None, cost, None, None]
    assert as_json(replace(REPORT, lines=found))["rows"][1]["cpu_kernel_threads_ms"] == 1.0
