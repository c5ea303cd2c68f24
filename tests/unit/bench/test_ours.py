from dataclasses import replace

import pytest

from executor.bench.ours import checked
from executor.bench.peer import CallFailed
from executor.bench.rows import Row
from executor.model.errors import ErrorCode, ErrorDetail
from executor.model.outcome import Artifact, Outcome, State, Stream
from executor.model.run import Usage

ROW = Row(name="one", tool="python", stdout=b"1\n")
GOOD = Outcome(
    invocation_id="inv_1",
    state=State.COMPLETED,
    tool="python",
    exit_code=0,
    stdout=Stream(text="1\n", total_bytes=2),
    usage=Usage(queue_ms=1.0, setup_ms=2.0, wall_ms=3.0, teardown_ms=4.0, cpu_ms=5.0),
)
FILE = Artifact(path="a", size_bytes=1, sha256="0", media_type="text/plain", ref="out_1")


def test_a_good_outcome_gives_its_parts():
    assert checked(ROW, GOOD) == {"queue_ms": 1.0, "setup_ms": 2.0, "wall_ms": 3.0, "teardown_ms": 4.0}


def test_every_time_that_the_outcome_tells_is_a_part_but_for_processor_time():
    told = checked(ROW, replace(GOOD, usage=replace(GOOD.usage, admission_ms=0.25, total_ms=12.0)))
    assert (told["admission_ms"], told["total_ms"]) == (0.25, 12.0)
    assert "cpu_ms" not in told


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (replace(GOOD, exit_code=3), "exit code 3"),
        (replace(GOOD, stdout=Stream(text="2\n", total_bytes=2)), "2 bytes of output, '2"),
        (replace(GOOD, stdout=Stream()), "0 bytes of output"),
        (replace(GOOD, artifacts=(FILE,)), "1 files came back instead of 0"),
        (
            replace(GOOD, state=State.FAILED, error=ErrorDetail(code=ErrorCode.OVERLOADED, message="Too many.")),
            "FAILED, OVERLOADED: Too many.",
        ),
    ],
)
def test_anything_else_has_failed_and_says_how(outcome, told):
    with pytest.raises(CallFailed, match=told):
        checked(ROW, outcome)


def test_of_output_that_was_cut_the_length_counts():
    long = replace(ROW, stdout=b"x" * 100)
    assert checked(long, replace(GOOD, stdout=Stream(text="xx", total_bytes=100, truncated=True)))
