import contextlib
import io

import pytest

from benchmarks.harness import ours
from benchmarks.harness.rows import ROWS
from executor.admission.arguments import parse
from executor.catalogue import catalogue

TOOLS, WARNINGS = catalogue.load((ours.CATALOGUE,), "host")


def test_the_catalogue_of_the_benchmark_has_no_warnings():
    assert WARNINGS == ()


def test_no_two_rows_have_the_same_name():
    assert len({row.name for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_arguments_of_a_row_fit_its_tool(row):
    tool = TOOLS.find(row.tool)
    assert parse(ours.json.dumps(row.arguments), tool) == row.arguments


@pytest.mark.parametrize("row", [row for row in ROWS if row.argv[:1] == ("python3",)], ids=lambda row: row.name)
def test_what_a_python_row_expects_is_what_its_program_prints(row):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(row.argv[-1], {})  # noqa: S102 - a program of ours
    assert printed.getvalue().encode() == row.stdout
