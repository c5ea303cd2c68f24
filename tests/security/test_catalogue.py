"""An argument stays an argument: never an option, a program, a second command line or a path outside."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from executor.catalogue import catalogue
from executor.model.errors import ErrorClass, ErrorCode, Misconfigured
from executor.model.outcome import Outcome, State
from tests.security.caller import Caller, assert_completed

CATALOGUE = Path(__file__).parent / "tools"
OPTIONS = [
    "-x",
    "-",
    "--",
    "---",
    "--flag",
    "--flag=value",
    "--option=forged",
    "--option",
    "-c",
    "-cimport os",
    "-e",
    "-I",
    "--help",
    "--version",
    "-rf",
    "@file",
    "+x",
    "/x",
    "\u2014flag",
    "\u2212x",
]
METACHARACTERS = [
    "; touch owned",
    "& touch owned &",
    "| touch owned",
    "&& touch owned",
    "|| touch owned",
    "$(touch owned)",
    "`touch owned`",
    "${IFS}touch${IFS}owned",
    "> owned",
    "< /etc/passwd",
    "\ntouch owned\n",
    "a\r\ntouch owned",
    "'; touch owned; '",
    '"; touch owned; "',
    "\\",
    "\\\\'\"",
    "*",
    "?[a-z]*",
    "~root",
    "$HOME $0 $@ $$ $?",
    "!!",
    "#comment",
    "a b\tc  d",
    "",
    " ",
    "{{option}}",
    "{{value}}",
    "\\{{value}}",
    "{0} %s %(value)s ${value}",
    "\x01\x1b[2J\x7f",
    "\u202e\u2028\u00e9e\u0301",
    "\U0001f600",
    "x" * 100_000,
]
INVALID: dict[str, Any] = {
    "a number for a string": {"value": 1},
    "null for a string": {"value": None},
    "an array for a string": {"value": ["a", "b"]},
    "an object for a string": {"value": {"a": "b"}},
    "a string for an integer": {"value": "a", "count": "1"},
    "a fraction for an integer": {"value": "a", "count": 1.5},
    "a boolean for an integer": {"value": "a", "count": True},
    "nothing that is required": {"option": "a"},
    "an unknown field": {"value": "a", "values": "b"},
    "a field of JavaScript": {"value": "a", "__proto__": {"option": "b"}},
    "a field in other letters": {"value": "a", "Option": "b"},
    "a path above": {"value": "a", "path": "../x"},
    "a path through above": {"value": "a", "path": "a/../../x"},
    "an absolute path": {"value": "a", "path": "/etc/passwd"},
    "the directory itself": {"value": "a", "path": "."},
    "an empty path": {"value": "a", "path": ""},
    "a path with an empty part": {"value": "a", "path": "a//b"},
    "a path that ends in a slash": {"value": "a", "path": "a/"},
    "a path of proc": {"value": "a", "path": "/proc/self/root"},
}
INVALID_TEXT = {
    "an array": '["a"]',
    "a string": '"a"',
    "a field twice": '{"value": "a", "value": "b"}',
    "no JSON": "value=a",
    "two documents": '{"value": "a"} {"value": "b"}',
    "not a number": '{"value": "a", "count": NaN}',
    "a comment": '{"value": "a" /* b */}',
    "half a surrogate pair": '{"value": "\\ud800"}',
    "very deep": '{"value": ' + "[" * 5000 + "]" * 5000 + "}",
}
UNSAFE = {
    "a bare positional": (["ls", "{{value}}"], "template-option"),
    "a bare positional before the end of options": (["ls", "{{value}}", "--", "x"], "template-option"),
    "an option that begins with the argument": (["ls", "{{value}}=x"], "template-option"),
    "the program": (["{{value}}"], "template-program"),
    "a shell's program": (["sh", "-c", "ls {{value}}"], "template-code"),
    "a shell's program behind env": (["env", "bash", "-c", "{{value}}"], "template-code"),
    "an interpreter's program": (["python3", "-c", "print('{{value}}')"], "template-code"),
    "an interpreter's program in one": (["python3", "-cprint({{value}})"], "template-code"),
}


async def test_what_looks_like_an_option_stays_behind_the_end_of_options(caller: Caller) -> None:
    """Probe 103: value `-x`/`--flag` for a positional."""
    outcomes = await all_of(caller, [{"value": value} for value in OPTIONS])

    for value, outcome in zip(OPTIONS, outcomes, strict=True):
        assert argv_of(outcome) == ["--", value]


async def test_what_looks_like_an_option_stays_the_value_of_its_option(caller: Caller) -> None:
    """Probe 103: value `-x`/`--flag` for a positional."""
    outcomes = await all_of(caller, [{"value": "a", "option": value} for value in OPTIONS])

    for value, outcome in zip(OPTIONS, outcomes, strict=True):
        assert argv_of(outcome) == [f"--option={value}", "--", "a"]


@pytest.mark.parametrize(("argv", "rule"), UNSAFE.values(), ids=UNSAFE.keys())
def test_a_manifest_in_which_an_argument_could_be_an_option_or_code_is_refused(
    tmp_path: Path, argv: list[str], rule: str
) -> None:
    """Probe 103: value `-x`/`--flag` for a positional."""
    manifest = yaml.safe_load((CATALOGUE / "argv.yaml").read_text())
    manifest["command"] = {"argv": argv}
    (tmp_path / "argv.yaml").write_text(yaml.safe_dump(manifest))

    with pytest.raises(Misconfigured, match=rule):
        catalogue.load((tmp_path,), "host")


@pytest.mark.parametrize("place", ["value", "option"])
async def test_shell_metacharacters_are_one_literal_argument(caller: Caller, place: str) -> None:
    """Probe 105: shell metacharacters, newline, backtick."""
    outcomes = await all_of(caller, [{"value": "a"} | {place: value} for value in METACHARACTERS])

    for value, outcome in zip(METACHARACTERS, outcomes, strict=True):
        assert argv_of(outcome) == (["--", value] if place == "value" else [f"--option={value}", "--", "a"])
        assert json.loads(outcome.stdout.text)["files"] == ["show.py"]


async def test_an_argument_that_names_another_is_not_filled_in(caller: Caller) -> None:
    """Probe 105: shell metacharacters, newline, backtick."""
    [outcome] = await all_of(caller, [{"value": "{{option}}", "option": "{{value}}", "count": 7}])

    assert argv_of(outcome) == ["--option={{value}}", "--count=7", "--", "{{option}}"]


@pytest.mark.parametrize("arguments", INVALID.values(), ids=INVALID.keys())
async def test_arguments_that_do_not_fit_are_refused_and_nothing_runs(
    caller: Caller, arguments: dict[str, Any]
) -> None:
    """Probe 107: wrong type, unknown field, path leaving workdir."""
    assert_refused(await caller.call("argv", arguments), ErrorCode.SCHEMA_VIOLATION)


@pytest.mark.parametrize("text", INVALID_TEXT.values(), ids=INVALID_TEXT.keys())
async def test_text_that_is_no_object_is_refused_and_nothing_runs(caller: Caller, text: str) -> None:
    """Probe 107: wrong type, unknown field, path leaving workdir."""
    outcome = await caller.client.execute("argv", text)

    assert_refused(outcome, ErrorCode.INVALID_JSON, ErrorCode.SCHEMA_VIOLATION)


async def test_a_path_below_the_workspace_is_passed_on_as_it_is(caller: Caller) -> None:
    """Probe 107: wrong type, unknown field, path leaving workdir."""
    paths = ["a", "a/b", "..a", "a..", "...", "-rf", "a b", "\u00e9", "*"]
    outcomes = await all_of(caller, [{"value": "a", "path": path} for path in paths])

    for path, outcome in zip(paths, outcomes, strict=True):
        assert argv_of(outcome) == [f"--path={path}", "--", "a"]


async def all_of(caller: Caller, calls: list[dict[str, Any]]) -> list[Outcome]:
    """The outcome of each, a few at a time."""
    places = asyncio.Semaphore(4)

    async def one(arguments: dict[str, Any]) -> Outcome:
        async with places:
            return await caller.call("argv", arguments)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(arguments)) for arguments in calls]
    return [task.result() for task in tasks]


def argv_of(outcome: Outcome) -> list[str]:
    """What the program got, beside its own name."""
    assert_completed(outcome)
    return [bytes.fromhex(item).decode() for item in json.loads(outcome.stdout.text)["argv"]]


def assert_refused(outcome: Outcome, *codes: ErrorCode) -> None:
    assert outcome.state is State.FAILED
    assert outcome.error is not None
    assert outcome.error.error_class is ErrorClass.INVALID_ARGUMENT
    assert outcome.error.code in codes
    assert outcome.error.violations != ()
    assert outcome.isolation is None, "a sandbox was made"
