import pytest

from executor.admission.json_strict import Refused, strict


def refusals(text, max_depth=64):
    with pytest.raises(Refused) as caught:
        strict(text, max_depth)
    return [(v.keyword, v.pointer) for v in caught.value.violations]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"a": 1, "a": 2}', [("duplicateKey", "/a")]),
        ('{"x": [{"a": 1, "\\u0061": 2}]}', [("duplicateKey", "/x/0/a")]),
        ('{"a": 1, "b": 1, "a": 2, "b": 2, "a": 3}', [("duplicateKey", "/a"), ("duplicateKey", "/b")]),
        ('{"a": {"b": 1, "b": 2}, "a": 3}', [("duplicateKey", "/a"), ("duplicateKey", "")]),
        ('{"a": NaN}', [("nonFinite", "/a")]),
        ('{"a": [1, Infinity, -Infinity]}', [("nonFinite", "/a/1"), ("nonFinite", "/a/2")]),
        ('{"a": 1e999}', [("range", "/a")]),
        ('{"a": -1e999}', [("range", "/a")]),
        ('{"a": 18446744073709551616}', [("range", "/a")]),
        ('{"a": -9223372036854775809}', [("range", "/a")]),
        ('{"a": ' + "9" * 500_000 + "}", [("range", "/a")]),
        ("NaN", [("nonFinite", "")]),
        ('{"a": "\\ud800"}', [("surrogate", "/a")]),
        ('{"a": "\ud800"}', [("surrogate", "/a")]),
        ('{"\\udc00": 1}', [("surrogate", "/?")]),
        ('{"a": 1} x', [("trailing", "")]),
        ("{}{}", [("trailing", "")]),
        ("", [("syntax", "")]),
        ("{", [("syntax", "")]),
        ("[" * 100_000, [("depth", "")]),
        ('{"a":' * 100_000, [("depth", "")]),
        ("[" * 65 + "]" * 65, [("depth", "")]),
    ],
)
def test_what_is_wrong_is_named_with_its_place(text, told):
    assert refusals(text) == told


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 18446744073709551615}', {"a": 2**64 - 1}),
        ('{"a": -9223372036854775808}', {"a": -(2**63)}),
        ('{"a": 1e-999}', {"a": 0.0}),
        ('{"a": "\\ud83d\\ude00"}', {"a": "\U0001f600"}),
        (' \n\t{"a": "\\u0000"}\r\n', {"a": "\0"}),
        ('{"a": "[[[[' + "[" * 100 + '"}', {"a": "[" * 104}),
    ],
)
def test_what_is_at_the_border_is_taken(text, value):
    assert strict(text, 64) == value


def test_nesting_up_to_the_depth_is_taken():
    assert strict("[" * 64 + "]" * 64, 64)


def test_trailing_text_is_shown_with_its_line_and_column():
    with pytest.raises(Refused, match=r"line 2, column 3\): more"):
        strict('{"a":\n1}more', 64)


def test_the_number_of_refusals_is_bounded():
    assert len(refusals("[" + ",".join(['{"a":1,"a":2}'] * 50_000) + "]")) == 20
