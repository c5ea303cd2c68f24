import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor.admission.arguments import MAX_ARGUMENTS_BYTES, MAX_ECHO_BYTES, echo, parse
from executor.model.errors import ErrorCode, InvocationError
from executor.model.limits import Limits
from executor.model.tool import Command, Effect, Example, Policy, Tool

PARAMETERS = {
    "type": "object",
    "additionalProperties": False,
    "required": ["city_name"],
    "properties": {
        "city_name": {"type": "string", "description": "City."},
        "days": {"type": "integer", "minimum": 1, "description": "Days ahead."},
        "file": {"type": "string", "format": "workspace-path", "description": "File."},
    },
}
TOOL = Tool(
    name="weather",
    version="1.0.0",
    description="Tells the weather.",
    parameters=PARAMETERS,
    effect=Effect.READ_ONLY,
    policy=Policy(image="host", limits=Limits()),
    command=Command(argv=("weather", "--", "{{city_name}}")),
    examples=(Example(arguments={"city_name": "Bern"}),),
    digest="sha256:weather",
)


def refused(raw, tool=TOOL, **bounds):
    with pytest.raises(InvocationError) as caught:
        parse(raw, tool, **bounds)
    error = caught.value
    assert len(error.detail.message) < 1000
    return error


def test_valid_arguments_come_back_as_they_are():
    assert parse('{"city_name": "Genève", "days": 2}', TOOL) == {"city_name": "Genève", "days": 2}


@pytest.mark.parametrize("raw", ["", " \n"])
def test_an_empty_text_means_no_arguments(raw):
    tool = replace(TOOL, parameters={"type": "object", "additionalProperties": False})
    assert parse(raw, tool) == {}


def test_full_width_syntax_is_mended_and_strings_are_kept():
    assert parse("｛“city_name”：“東京，，（都）：”｝", TOOL) == {"city_name": "東京，，（都）："}  # noqa: RUF001


@pytest.mark.parametrize(
    ("raw", "keyword"),
    [
        ('{"city_name": "a", "city_name": "b"}', "duplicateKey"),
        ('{"city_name": NaN}', "nonFinite"),
        ('{"city_name": "a"} thanks', "trailing"),
        ('{"city_name": "a"', "syntax"),
        ("[" * 100_000, "depth"),
        ("[1]", "type"),
        ('"text"', "type"),
        ("null", "type"),
        ("1", "type"),
        ("true", "type"),
        ("1.5", "type"),
    ],
)
def test_what_is_no_json_object_is_refused_by_name(raw, keyword):
    error = refused(raw)
    assert error.detail.code is ErrorCode.INVALID_JSON
    assert error.detail.violations[0].keyword == keyword
    assert '{"city_name":"Bern"}' in error.detail.suggestion


def test_arguments_that_are_too_large_are_refused_naming_the_limit():
    error = refused(json.dumps({"city_name": "x" * MAX_ARGUMENTS_BYTES}))
    assert error.detail.code is ErrorCode.PAYLOAD_TOO_LARGE
    assert error.detail.violations[0].keyword == "size"
    assert "arguments_bytes is 1048576" in error.detail.message


def test_size_is_counted_in_bytes():
    raw = '{"city_name": "éééééééééé"}'
    assert refused(raw, max_bytes=len(raw) + 5).detail.code is ErrorCode.PAYLOAD_TOO_LARGE
    assert parse(raw, TOOL, max_bytes=len(raw) + 10)


def test_every_violation_is_told_and_the_suggestion_says_what_to_do():
    error = refused('{"citynam": "x", "days": 0, "file": "../x"}')
    assert error.detail.code is ErrorCode.SCHEMA_VIOLATION
    assert {(v.pointer, v.keyword) for v in error.detail.violations} == {
        ("/citynam", "additionalProperties"),
        ("/days", "minimum"),
        ("/file", "format"),
        ("", "required"),
    }
    assert any("did you mean `city_name`?" in v.message for v in error.detail.violations)
    assert "ename `citynam` to `city_name`" in error.detail.suggestion
    assert "Required: `city_name`; optional: `days`, `file`." in error.detail.suggestion


def test_a_hostile_key_stays_bounded():
    error = refused(json.dumps({"k" * 500_000: 1}))
    assert all(len(v.pointer) + len(v.message) < 1200 for v in error.detail.violations)
    assert len(error.detail.suggestion) < 1000


def test_many_violations_stay_bounded():
    error = refused(json.dumps({f"k{n}": 1 for n in range(20_000)}))
    assert len(error.detail.violations) == 20


def test_two_tools_with_one_digest_are_not_taken_for_each_other():
    other = replace(TOOL, parameters={"type": "object", "properties": {"n": {"type": "integer"}}})
    assert parse('{"city_name": "x"}', TOOL)
    assert refused('{"n": "x"}', other).detail.violations[0].pointer == "/n"
    assert parse('{"city_name": "x"}', TOOL)


def test_an_echo_keeps_both_ends_and_is_valid_utf8():
    text = echo("é" * 5000 + "\ud800 end")
    assert text.startswith("é")
    assert text.endswith("? end")
    assert "10005 bytes in all" in text
    assert len(text.encode()) < MAX_ECHO_BYTES + 100


@given(st.text())
def test_any_text_is_taken_or_refused_and_nothing_else_happens(raw):
    try:
        assert isinstance(parse(raw, TOOL), dict)
    except InvocationError as error:
        assert error.detail.violations  # noqa: PT017 - either
        assert len(echo(raw).encode()) <= MAX_ECHO_BYTES + 100
