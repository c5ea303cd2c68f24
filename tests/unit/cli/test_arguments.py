import io
import json

import pytest
from hypothesis import given as examples
from hypothesis import strategies as st

from executor.cli.arguments import Given, Stdin, given, input_files, limit_overrides
from executor.cli.exits import Misuse

STRING, INTEGER = {"type": "string"}, {"type": "integer"}


def typed(text, declared, **root):
    schema = {"type": "object", "properties": {"x": declared}, **root}
    return json.loads(Given(None, {"x": text}).as_json(schema))["x"]


@pytest.mark.parametrize(
    ("text", "declared", "value"),
    [
        ("1", STRING, "1"),
        ("1", INTEGER, 1),
        (" 1 ", INTEGER, 1),
        ("1.5", {"type": "number"}, 1.5),
        ("true", {"type": "boolean"}, True),
        ("true", STRING, "true"),
        ("[1, 2]", {"type": "array"}, [1, 2]),
        ('{"a": null}', {"type": "object"}, {"a": None}),
        ("null", {"type": ["integer", "null"]}, None),
        ("null", {"type": ["string", "null"]}, "null"),
        ("1", {"anyOf": [INTEGER, {"type": "null"}]}, 1),
        ("1", {"oneOf": [STRING, INTEGER]}, "1"),
        ("1", {"enum": [1, 2]}, 1),
        ("1", {"enum": ["1", "2"]}, "1"),
        ("1", {"const": 1}, 1),
        ("[1]", {}, [1]),
        ("plain", {}, "plain"),
        ("plain", None, "plain"),
    ],
)
def test_a_value_has_the_type_that_the_schema_declares(text, declared, value):
    assert typed(text, declared) == value


@pytest.mark.parametrize("words", [{"args_file": "/dev/zero"}, {"pairs": ["a=@/dev/zero"]}, {"args_file": "-"}])
def test_a_source_without_end_is_misuse(monkeypatch, words):
    with open("/dev/zero") as endless:  # noqa: PTH123 - a device
        monkeypatch.setattr("sys.stdin", endless)
        with pytest.raises(Misuse, match="more than 33554432 bytes"):
            given(words.get("pairs", ()), None, words.get("args_file"), Stdin())
    with pytest.raises(Misuse, match="more than 33554432 bytes"):
        input_files(["a=/dev/zero"], Stdin())


def test_a_standard_input_that_cannot_be_read_is_misuse(monkeypatch):
    with open("/dev/null", "w") as closed:  # noqa: PTH123 - a device
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.FileIO(closed.fileno(), "r", closefd=False)))
        with pytest.raises(Misuse, match="--args-file: cannot be read: Bad file descriptor"):
            given((), None, "-", Stdin())


def test_a_type_is_found_behind_a_reference_and_a_cycle_ends():
    assert typed("7", {"$ref": "#/$defs/n"}, **{"$defs": {"n": INTEGER}}) == 7
    assert typed("text", {"$ref": "#/$defs/n"}, **{"$defs": {"n": {"$ref": "#/$defs/n"}}}) == "text"


@pytest.mark.parametrize("text", ["", "many", "1 2", "NaN", "Infinity", "1, 2", "[" * 100_000, "1" * 5000])
def test_what_is_not_one_json_value_is_misuse_that_names_the_type(text):
    with pytest.raises(Misuse, match="x takes integer"):
        typed(text, INTEGER)


def test_numbers_stay_as_they_were_written():
    assert Given(None, {"x": "1.10e2"}).as_json({"properties": {"x": {"type": "number"}}}) == '{"x": 1.10e2}'


@examples(st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"])))
def test_a_text_is_never_anything_but_that_text(name, text):
    schema = {"properties": {name: STRING}}
    assert json.loads(Given(None, {name: text}).as_json(schema)) == {name: text}


@examples(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1))
def test_a_pair_never_becomes_two(text):
    value = text if not text.startswith("@") else f"@{text}"
    found = given([f"x={value}"], None, None, Stdin())
    try:
        parsed = json.loads(found.as_json({"properties": {"x": INTEGER}}))
    except Misuse:
        return
    assert list(parsed) == ["x"]


def test_given_json_is_passed_on_exactly_as_it_is():
    for text in ("{", '{"a": 1, "a": 2}', "", "{“a”: 1}"):
        assert given([], text, None, Stdin()).as_json({}) == text


def test_nothing_given_is_an_empty_object():
    assert given([], None, None, Stdin()).as_json({}) == "{}"


def test_stdin_is_read_once(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"text")))
    stdin = Stdin()
    assert given(["x=@-"], None, None, stdin).texts == {"x": "text"}
    with pytest.raises(Misuse, match="both read standard input"):
        input_files(["a=-"], stdin)


def test_a_file_that_is_not_utf_8_is_misuse_that_names_the_other_way(tmp_path):
    (tmp_path / "b").write_bytes(b"ok\xff")
    with pytest.raises(Misuse, match=r"not UTF-8 \(byte 2\); pass such data with --file"):
        given([f"x=@{tmp_path}/b"], None, None, Stdin())


def test_a_file_goes_in_under_its_own_path_with_its_mode(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.sh").write_bytes(b"#!/bin/sh\n")
    (tmp_path / "run.sh").chmod(0o755)
    (tmp_path / "data").write_bytes(b"\xff")
    first, second = input_files(["run.sh", "d/x=data"], Stdin())
    assert (first.path, first.content, first.executable) == ("run.sh", b"#!/bin/sh\n", True)
    assert (second.path, second.content, second.executable) == ("d/x", b"\xff", False)


@pytest.mark.parametrize("item", ["", "=x", "/a=x", "../a=x", "a//b=x", "a=nowhere", "a=", "a=.", "nul=a\0b"])
def test_a_file_that_cannot_go_in_is_misuse(item):
    with pytest.raises(Misuse, match="--file"):
        input_files([item], Stdin())


def test_limits_are_numbers_by_name():
    assert limit_overrides(["processes=3", "wall_seconds=0.5"]) == {"processes": 3, "wall_seconds": 0.5}


@pytest.mark.parametrize("item", ["processes", "processes=", "processes=x", "processes=-1", "wall_seconds=inf", "x=1"])
def test_what_is_no_limit_is_misuse(item):
    with pytest.raises(Misuse, match="--limit"):
        limit_overrides([item])
