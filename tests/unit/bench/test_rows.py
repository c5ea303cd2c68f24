import json

import pytest

from executor.admission.arguments import parse
from executor.bench import ours
from executor.bench.rows import ROWS
from executor.catalogue import catalogue

TOOLS, WARNINGS = catalogue.load((ours.CATALOGUE,), "host")


def test_the_catalogue_of_the_benchmark_has_no_warnings():
    assert WARNINGS == ()


def test_no_two_rows_have_the_same_name():
    assert len({row.name for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_arguments_of_a_row_fit_its_tool(row):
    tool = TOOLS.find(row.tool)
    assert parse(json.dumps(row.arguments), tool) == row.arguments


@pytest.mark.parametrize("row", [row for row in ROWS if row.argv and not row.arguments], ids=lambda row: row.name)
def test_a_row_without_arguments_has_a_tool_with_the_same_command(row):
    command = TOOLS.find(row.tool).command
    assert tuple(command.argv) == row.argv


@pytest.mark.parametrize("row", [row for row in ROWS if row.argv and row.arguments], ids=lambda row: row.name)
def test_the_command_of_a_peer_has_what_the_tool_is_given(row):
    assert row.argv[-1] == next(iter(row.arguments.values()))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_runs_in_the_image_that_its_tool_runs_in(row):
    assert TOOLS.find(row.tool).policy.image == row.image


def test_the_sums_that_the_group_by_row_expects_are_those_of_its_numbers():
    row = next(row for row in ROWS if row.name == "pandas group-by")
    values = [[index * 0.5 for index in range(key, 1000, 10)] for key in range(10)]
    lines = [f"{key},{sum(group)},{sum(group) / len(group)},{max(group)}" for key, group in enumerate(values)]
    assert row.stdout.decode().splitlines() == ["key,sum,mean,max", *lines]
