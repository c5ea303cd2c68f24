import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor.catalogue.template import (
    MAX_ARGV_BYTES,
    MAX_ARGV_ITEM_BYTES,
    Placeholder,
    near_misses,
    parts,
    placeholders,
    render,
    with_defaults,
)
from executor.model.errors import ErrorCode, InvocationError
from executor.model.invocation import InputFile
from executor.model.tool import Command

SCHEMA = {"type": "object", "properties": {"a": {}, "b": {}, "c": {"default": 3}}}
ENCODABLE = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
ARGUMENT = ENCODABLE.filter(lambda text: "\0" not in text)


def refused(command, arguments):
    with pytest.raises(InvocationError) as caught:
        render(command, arguments, SCHEMA)
    return caught.value.detail


@given(ARGUMENT)
def test_every_value_in_argv_is_byte_equal_to_the_argument(value):
    rendered = render(Command(argv=("run", "--", "{{a}}", "--x={{a}}")), {"a": value}, SCHEMA)
    assert [item.encode() for item in rendered.argv] == [b"run", b"--", value.encode(), b"--x=" + value.encode()]


@given(ENCODABLE)
def test_every_value_in_stdin_and_files_is_byte_equal_to_the_argument(value):
    rendered = render(Command(argv=("run",), stdin="{{a}}", files={"f": "<{{a}}>"}), {"a": value}, SCHEMA)
    assert rendered.stdin == value.encode()
    assert rendered.files == (InputFile(path="f", content=b"<" + value.encode() + b">", internal=True),)


@pytest.mark.parametrize(
    "value",
    [
        "; rm -rf /",
        "$(id)",
        "`id`",
        "a b",
        "*",
        "~",
        "|| true",
        "'\"",
        "\n",
        "--help",
        "-rf",
        "$IFS",
        "{{b}}",
        "\\{{b}}",
        "",
    ],
)
def test_shell_metacharacters_options_and_placeholders_stay_literal(value):
    rendered = render(Command(argv=("run", "--", "{{a}}")), {"a": value, "b": "other"}, SCHEMA)
    assert rendered.argv == ("run", "--", value)


@pytest.mark.parametrize(
    ("value", "text"),
    [(1, "1"), (1.0, "1"), (1.5, "1.5"), (True, "true"), (None, "null"), ({"b": 1, "a": [2]}, '{"a":[2],"b":1}')],
)
def test_what_is_no_string_becomes_canonical_json(value, text):
    assert render(Command(argv=("run", "--x={{a}}")), {"a": value}, SCHEMA).argv == ("run", f"--x={text}")


def test_an_item_with_an_absent_parameter_is_left_out():
    command = Command(argv=("run", "--a={{a}}", "--", "{{b}}", "end"))
    assert render(command, {}, SCHEMA).argv == ("run", "--", "end")
    assert render(command, {"b": ""}, SCHEMA).argv == ("run", "--", "", "end")


def test_an_absent_parameter_is_empty_in_stdin_and_files():
    rendered = render(Command(argv=("run",), stdin="<{{a}}>", files={"f": "{{b}}"}), {}, SCHEMA)
    assert (rendered.stdin, rendered.files[0].content) == (b"<>", b"")


def test_a_default_fills_an_absent_parameter_and_no_other():
    command = Command(argv=("run", "--c={{c}}"))
    assert render(command, {}, SCHEMA).argv == ("run", "--c=3")
    assert render(command, {"c": 4}, SCHEMA).argv == ("run", "--c=4")
    assert with_defaults({"a": 1}, SCHEMA) == {"a": 1, "c": 3}


def test_the_environment_is_literal():
    rendered = render(Command(argv=("run",), environment={"X": "{{a}}"}), {"a": "no"}, SCHEMA)
    assert rendered.environment == {"X": "{{a}}"}


def test_only_an_exact_placeholder_is_one():
    assert parts("x{{a}}y{{b-c}}") == ("x", Placeholder("a"), "y", Placeholder("b-c"))
    assert placeholders("{a} {{ a }} {{}} {{1}} ${a} {{a}} }}") == ("a",)
    assert near_misses("{{ a }} {{b}} {{c }}") == ("a", "c")


def test_a_backslash_makes_braces_literal():
    assert parts(r"\{{a}} {{a}}") == ("{{a}} ", Placeholder("a"))


@given(ENCODABLE)
def test_a_template_without_placeholders_is_its_own_text(text):
    template = text.replace("{{", "{ {")
    assert render(Command(argv=("run",), stdin=template), {}, SCHEMA).stdin == template.encode()


def test_a_nul_in_argv_is_refused_with_a_pointer():
    detail = refused(Command(argv=("run", "--x={{a}}")), {"a": "x\0y"})
    assert detail.code is ErrorCode.SCHEMA_VIOLATION
    assert [(v.pointer, v.keyword) for v in detail.violations] == [("/a", "nul")]


def test_a_nul_in_a_file_is_content():
    assert render(Command(argv=("run",), files={"f": "{{a}}"}), {"a": "\0"}, SCHEMA).files[0].content == b"\0"


@pytest.mark.parametrize("value", ["\ud800", {"deep": ["\udfff"]}])
def test_a_lone_surrogate_is_refused_with_a_pointer(value):
    detail = refused(Command(argv=("run",), stdin="{{a}}"), {"a": value})
    assert [(v.pointer, v.keyword) for v in detail.violations] == [("/a", "surrogate")]


def test_an_item_may_be_as_long_as_the_kernel_takes_and_no_longer():
    command = Command(argv=("run", "--", "{{a}}"))
    assert render(command, {"a": "x" * MAX_ARGV_ITEM_BYTES}, SCHEMA).argv[2]
    detail = refused(command, {"a": "x" * (MAX_ARGV_ITEM_BYTES + 1)})
    assert detail.code is ErrorCode.PAYLOAD_TOO_LARGE
    assert "argv_item_bytes is 131071" in detail.message
    assert detail.violations[0].pointer == "/a"


def test_the_literal_part_of_an_item_counts_too():
    detail = refused(Command(argv=("run", "--x={{a}}")), {"a": "x" * MAX_ARGV_ITEM_BYTES})
    assert "Item 1 of the command line" in detail.message


def test_all_items_together_are_bounded():
    detail = refused(Command(argv=("run", "--", *["{{a}}"] * 20)), {"a": "x" * 100_000})
    assert detail.code is ErrorCode.PAYLOAD_TOO_LARGE
    assert f"argv_bytes is {MAX_ARGV_BYTES}" in detail.message
