import json
from dataclasses import replace

import pytest

from executor.bench.goals import Bound, Verdict
from executor.bench.report import Report, as_markdown
from executor.cli.bench import status, write
from executor.cli.exits import Exit

MET = Verdict(name="fast", value=1.0, goal=2.0, bound=Bound.AT_MOST, unit="x")
REPORT = Report(machine={"cpus": 2}, posture={}, lines=(), absences=(), verdicts=(MET,))
MISSED = replace(REPORT, verdicts=(replace(MET, value=3.0),))
FAILED = replace(REPORT, troubles=("a process was left behind",))


@pytest.mark.parametrize(
    ("report", "strict", "expected"),
    [
        (REPORT, True, Exit.OK),
        (MISSED, False, Exit.OK),
        (MISSED, True, Exit.NOT_OK),
        (FAILED, False, Exit.NOT_OK),
    ],
)
def test_a_failure_always_counts_and_a_missed_goal_only_where_it_is_asked_for(report, strict, expected):
    assert status(report, strict=strict) is expected


def test_all_four_files_are_written_into_a_directory_that_is_made(tmp_path):
    place = tmp_path / "a" / "b"
    write(REPORT, place)
    assert sorted(one.name for one in place.iterdir()) == ["bench.json", "bench.md", "latency.svg", "rate.svg"]
    assert json.loads((place / "bench.json").read_text())["goals"][0]["met"]
    assert (place / "bench.md").read_text() == as_markdown(REPORT)


def test_a_bound_that_is_no_time_is_a_misuse(executor):
    ran = executor("bench", "--seconds", "0")
    assert (ran.status, ran.out) == (Exit.MISUSE, "")
    assert "--seconds" in ran.err
