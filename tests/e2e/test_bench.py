"""The benchmark in its smallest form: what it writes, and how it ends. Its figures mean nothing here."""

import json
import os
import subprocess
from xml.etree import ElementTree as ET

import pytest

from executor.bench.goals import Evidence, judge
from executor.bench.names import BARE, OURS, SPAWN
from executor.bench.rows import ROWS
from tests.support.cli import EXECUTOR, environment

KEYS = {"peer", "row", "in_flight", "gap", "p50_ms", "p95_ms", "p99_ms", "rate", "cpu_ms", "failures", "samples"}
GOALS = [one.name for one in judge(Evidence(lines=(), parked=(), absences=()))]


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    place = tmp_path_factory.mktemp("bench")
    words = [EXECUTOR, "bench", "--quick", "--seconds", "1", "--output-dir", str(place / "out")]
    done = subprocess.run(
        words, capture_output=True, text=True, env=environment(place / "state"), check=False, timeout=60
    )
    return done, place / "out"


@pytest.fixture
def report(ran):
    return json.loads((ran[1] / "bench.json").read_text())


def test_a_run_in_which_no_call_failed_exits_with_0_though_goals_are_missed(ran, report):
    done, _ = ran
    assert (done.returncode, done.stderr, report["troubles"]) == (0, "", [])
    assert done.stdout == (ran[1] / "bench.md").read_text()


def test_every_line_says_who_ran_what_and_how_fast(report):
    assert all(row.keys() >= KEYS for row in report["rows"])
    assert {OURS, SPAWN} <= {row["peer"] for row in report["rows"]}
    assert all(
        row["samples"] and not row["failures"] and row["p50_ms"] > 0 and row["rate"] > 0 for row in report["rows"]
    )


def test_every_goal_is_judged_and_one_that_was_not_measured_says_why(report):
    assert [goal["name"] for goal in report["goals"]] == GOALS
    assert all((goal["value"] is None) == bool(goal["why"]) for goal in report["goals"])
    assert all(("at_most" in goal) != ("at_least" in goal) for goal in report["goals"])


def test_what_was_not_measured_is_named_with_a_reason(report):
    measured = {row["row"] for row in report["rows"]}
    absent = {one["row"] for one in report["absences"] if one["peer"] == "all"}
    assert measured | absent == {row.name for row in ROWS}
    assert measured.isdisjoint(absent)
    assert all(one["reason"] for one in report["absences"])


def test_the_posture_is_that_of_the_sandbox_that_was_measured(report):
    assert report["posture"]["backend"] == "native"
    assert report["posture"]["prepared"].keys() == {row["row"] for row in report["rows"]}
    assert report["machine"]["cpus"] == os.cpu_count()


def test_the_server_tells_where_the_time_of_a_call_went(report):
    (told,) = (one for one in report["breakdown"] if (one["row"], one["in_flight"]) == ("true", 1))
    assert {"queue_ms", "setup_ms", "wall_ms", "teardown_ms", "rest_ms"} <= told["parts_p50"].keys()


@pytest.mark.root
def test_the_memory_of_a_parked_bare_sandbox_is_weighed(report):
    assert any(one["kind"] == BARE and one["pss_mib"] > 0 for one in report["idle_memory"])


def test_the_two_plots_are_drawings(ran):
    for name in ("latency.svg", "rate.svg"):
        assert ET.parse(ran[1] / name).getroot().tag.endswith("svg")  # noqa: S314 - written by us
