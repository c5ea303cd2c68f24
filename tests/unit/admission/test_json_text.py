import json
import unicodedata

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from executor.admission.json_strict import Refused
from executor.admission.json_text import QUOTES, SYNTAX, normalised, read

TEXT = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from([*SYNTAX, *QUOTES, '"', "\\", "\n", "\0"]))
NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=10,
)
PAIRS = [("\uff02", "\uff02"), ("\u201c", "\u201d"), ("\u201d", "\u201d"), ("\u201e", "\u201c"), ("\u301d", "\u301e")]


def typeset(value, quotes):
    """The value as a model writes it whose keyboard has no ASCII punctuation; what stands in a string is untouched."""
    opens, closes = quotes
    match value:
        case str():
            inner = json.dumps(value, ensure_ascii=False)[1:-1]
            return f"{opens}{inner}{closes}"
        case list():
            items = "\uff0c\u3000".join(typeset(v, quotes) for v in value)
            return f"\uff3b{items}\uff3d"
        case dict():
            items = "\uff0c".join(f"{typeset(k, quotes)}\uff1a{typeset(v, quotes)}" for k, v in value.items())
            return f"\uff5b{items}\uff5d"
        case _:
            return json.dumps(value)


def strings(value):
    match value:
        case str():
            return value
        case list():
            return "".join(map(strings, value))
        case dict():
            return "".join(strings(k) + strings(v) for k, v in value.items())
        case _:
            return ""


@given(VALUES)
def test_json_reads_as_the_standard_library_reads_it(value):
    assert read(json.dumps(value), 64) == value
    assert read(json.dumps(value, ensure_ascii=False), 64) == value


@given(VALUES, st.sampled_from(PAIRS))
def test_typographic_syntax_never_alters_a_string(value, quotes):
    assume(not set(QUOTES[quotes[0]]) & set(strings(value)))
    assert read(typeset(value, quotes), 64) == value


@given(TEXT)
def test_a_string_in_plain_quotes_keeps_every_character(text):
    assert read(f"\uff5b{json.dumps(text, ensure_ascii=False)}\uff1a1\uff5d", 64) == {text: 1}


@given(VALUES)
def test_normalising_strict_json_changes_nothing(value):
    text = json.dumps(value, ensure_ascii=False)
    assert normalised(text) == text


@given(st.text(st.sampled_from([*SYNTAX, *QUOTES, *'{}[]:," \\a1', "\n"]), max_size=40))
def test_any_text_is_read_or_refused_by_name(text):
    try:
        read(text, 64)
    except Refused as refused:
        assert refused.keyword in {"syntax", "trailing", "duplicateKey", "surrogate", "depth"}  # noqa: PT017 - either


def test_each_sign_becomes_what_nfkc_makes_of_it():
    assert {sign: unicodedata.normalize("NFKC", sign) for sign in SYNTAX} == dict(SYNTAX)


def test_plain_quotes_inside_curly_ones_are_content():
    assert read('{\u201ca\u201d: \u201csay "hi" \\" \\n\u201d}', 64) == {"a": 'say "hi" " \n'}


@pytest.mark.parametrize(
    "text",
    [
        '{\u201ca": \u201cx\u201d}',
        "{'a': 1}",
        "{a: 1}",
        '{"a": 1,}',
        '{"a": \uff11}',
        '{"a": \uff54rue}',
        '{"a": 1\u00b2}',
        '{"a": "x}',
        "```json\n{}\n```",
        '{"a": "line\nbreak"}',
        '{"a": 01}',
        '{"a": 1} // no',
        "\ufeff{}",
        "{\u201ca\u201d: \u201cx\\\u201d}",
    ],
)
def test_nothing_else_is_mended(text):
    with pytest.raises(Refused) as caught:
        read(text, 64)
    assert caught.value.keyword in ("syntax", "trailing")


def test_a_syntax_error_tells_line_and_column_of_the_text_as_received():
    with pytest.raises(Refused, match="line 2, column 6"):
        read('{"a":\uff11,\n"b": x}'.replace("\uff11", "1"), 64)
    with pytest.raises(Refused, match="line 1, column 1:"):
        read("\uff5b\u201ca\u201d\uff1a\uff1a1\uff5d", 64)
