import pytest

from executor.schema.validator import MAX_MESSAGE_CHARS, MAX_VIOLATIONS, InvalidSchema, compiled, violations

SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["city_name"],
    "properties": {
        "city_name": {"type": "string", "maxLength": 5},
        "file": {"type": "string", "format": "workspace-path"},
        "when": {"type": "string", "format": "date"},
        "place": {"$ref": "#/$defs/place"},
        "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "many": {"type": "array", "items": {"type": "integer"}},
    },
    "$defs": {
        "place": {"type": "object", "additionalProperties": False, "properties": {"zip_code": {"type": "string"}}}
    },
}


def told(value):
    return {(v.pointer, v.keyword): v.message for v in violations(compiled(SCHEMA), SCHEMA, value)}


def test_a_valid_value_has_no_violation():
    assert told({"city_name": "Bern", "file": "a/b.txt", "when": "2024-02-29", "either": 1}) == {}


def test_an_unknown_property_names_the_nearest_and_what_exists():
    message = told({"city_name": "x", "citynam": 1})["/citynam", "additionalProperties"]
    assert "did you mean `city_name`?" in message
    assert "`file`" in message


def test_an_unknown_property_behind_a_reference_names_what_exists_there():
    message = told({"city_name": "x", "place": {"zip": 1}})["/place/zip", "additionalProperties"]
    assert message == "There is no property `zip`; did you mean `zip_code`? The properties are `zip_code`."


def test_a_missing_property_is_named():
    assert told({}) == {("", "required"): "`city_name` is required and missing."}


def test_formats_are_checked():
    assert set(told({"city_name": "x", "when": "2023-02-29"})) == {("/when", "format")}


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "", ".", "a/../b", "a\0"])
def test_a_path_that_leaves_the_workspace_is_a_violation(path):
    assert ("/file", "format") in told({"city_name": "x", "file": path})


def test_every_branch_tells_why_it_does_not_hold():
    message = told({"city_name": "x", "either": []})["/either", "anyOf"]
    assert '"string"' in message
    assert '"integer"' in message


def test_messages_are_bounded():
    assert all(len(m) <= MAX_MESSAGE_CHARS for m in told({"city_name": "x" * 100_000}).values())


def test_the_number_of_violations_is_bounded_and_said():
    found = violations(compiled(SCHEMA), SCHEMA, {"city_name": "x", "many": ["a"] * 1000})
    assert len(found) == MAX_VIOLATIONS
    assert found[-1].keyword == "more"


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({"type": "strin"}, ("type",)),
        ({"properties": {"a": {"minLength": -1}}}, ("properties", "a", "minLength")),
        ({"pattern": "("}, ("pattern",)),
        ({"format": "no-such-format"}, ("format",)),
        ({"$ref": "#/$defs/nowhere"}, ()),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, ("$schema",)),
    ],
)
def test_an_invalid_schema_is_refused_with_its_place(schema, path):
    with pytest.raises(InvalidSchema) as caught:
        compiled(schema)
    assert caught.value.problems[0][0] == path


def test_a_remote_reference_is_never_fetched():
    with pytest.raises(InvalidSchema) as caught:
        compiled({"$ref": "http://127.0.0.1:9/schema.json"})
    assert "a remote reference is not allowed" in caught.value.problems[0][1]


def test_a_pattern_that_backtracks_ends_soon():
    schema = {"type": "string", "pattern": "^(a+)+$"}
    assert violations(compiled(schema), schema, "a" * 40 + "!")
