import json

import pytest

from executor.cli.exits import Misuse
from executor.cli.output import part
from executor.cli.target import Part


@pytest.mark.parametrize(
    ("text", "expected"), [("0:10", (0, 10)), (":10", (0, 10)), ("5:", (5, None)), (":", (0, None)), ("3:3", (3, 3))]
)
def test_a_range_is_half_open_and_may_leave_an_end_out(text, expected):
    assert part(text, None, None) == Part(bytes=expected)
    assert part(None, text, None) == Part(lines=expected)


@pytest.mark.parametrize("text", ["", "5", "a:b", "-1:2", "1:-2", "9:3", "1:2:3", "²:3"])
def test_what_is_no_range_is_misuse(text):
    with pytest.raises(Misuse, match="--range"):
        part(text, None, None)


def test_two_selections_are_misuse():
    with pytest.raises(Misuse, match="exclude each other"):
        part("0:1", None, "x")


def test_a_ref_that_does_not_exist_gives_3(executor):
    ran = executor("output", "out_" + "a" * 27)
    assert (ran.status, ran.out) == (3, "")
    assert "There is no output under ref" in ran.err


def test_what_is_no_expression_is_a_misuse_and_its_place_is_told(executor):
    ref = json.loads(executor("run", "count", "--output", "json").out)["stdout"]["ref"]
    ran = executor("output", ref, "--grep", "(")
    assert ran.status == 2
    assert "RE2" in ran.err
