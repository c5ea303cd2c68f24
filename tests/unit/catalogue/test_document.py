import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from executor.catalogue import document as module
from executor.catalogue.document import Mark, Unreadable, read


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("NO", "NO"),
        ("yes", "yes"),
        ("on", "on"),
        ("0755", 755),
        ("0o17", 15),
        ("0x1F", 31),
        ("+12", 12),
        ("1_000", "1_000"),
        ("12:30", "12:30"),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("true", True),
        ("FALSE", False),
        ("~", None),
        ("", None),
        ("2024-01-01", "2024-01-01"),
        ("'12'", "12"),
        ('"true"', "true"),
        ("!!str 12", "12"),
        ("! 12", "12"),
        ("!!int 12", 12),
        ("=", "="),
        ("<<", "<<"),
    ],
)
def test_a_scalar_is_read_by_the_core_schema_of_yaml_1_2(text, value):
    got = read(f"key: {text}\n".encode()).value["key"]
    assert got == value
    assert type(got) is type(value)


def test_every_value_and_key_has_its_place():
    document = read(b"a: 1\nb:\n  - x\n  -  {c: 2}\n")
    assert document.value == {"a": 1, "b": ["x", {"c": 2}]}
    assert document.locate(("b", 1, "c")) == Mark(4, 10)
    assert document.locate(("b", 1, "c"), at_key=True) == Mark(4, 7)
    assert document.locate(("b", 1, "nowhere", 3)) == Mark(4, 6)


def test_keys_are_their_text():
    assert read(b"3: a\ntrue: b\n~: c\n").value == {"3": "a", "true": "b", "~": "c"}


@pytest.mark.parametrize(
    ("content", "rule", "line", "column"),
    [
        (b"a: 1\nb: 2\na: 3\n", "duplicate-key", 3, 1),
        (b'1: a\n"1": b\n', "duplicate-key", 2, 1),
        (b"a: &x 1\n", "yaml-alias", 1, 4),
        (b"a: *x\n", "yaml-alias", 1, 4),
        (b"a: [&x [], *x]\n", "yaml-alias", 1, 5),
        (b"a: !!python/object:os.system x\n", "yaml-tag", 1, 4),
        (b"a: !!binary aGk=\n", "yaml-tag", 1, 4),
        (b"a: !own {b: 1}\n", "yaml-tag", 1, 4),
        (b"a: !!int x\n", "yaml-tag", 1, 4),
        (b"a: .inf\n", "yaml-number", 1, 4),
        (b"a: .nan\n", "yaml-number", 1, 4),
        (b"a: 1e999\n", "yaml-number", 1, 4),
        (b"a: 99999999999999999999\n", "yaml-number", 1, 4),
        (b"a: " + b"9" * 100_000, "yaml-number", 1, 4),
        (b"? [a]\n: 1\n", "yaml-key", 1, 3),
        (b"", "yaml-empty", 1, 1),
        (b"a: 1\n---\nb: 2\n", "yaml-documents", 2, 1),
        (b"a: 1\n\xff\n", "yaml-encoding", 2, 1),
        (b"a: b: c\n", "yaml-syntax", 1, 5),
        (b"a: [1\n", "yaml-syntax", 2, 1),
        (b"a: \x01\n", "yaml-syntax", 1, 1),
        (b" " * 1_100_000, "yaml-size", 1, 1),
    ],
)
def test_what_a_manifest_may_not_hold_is_refused_with_its_place(content, rule, line, column):
    with pytest.raises(Unreadable) as caught:
        read(content)
    assert (caught.value.rule, caught.value.mark) == (rule, Mark(line, column))


@pytest.mark.parametrize("content", [b"[" * 500, b"a: " + b"[" * 500, b"{a: " * 500, b"- " * 50_000])
def test_deep_nesting_is_refused_by_name(content):
    with pytest.raises(Unreadable) as caught:
        read(content)
    assert caught.value.rule == "yaml-depth"


@pytest.mark.parametrize("content", [b"[" * 500_000, b"{a: " * 200_000])
def test_a_bomb_of_brackets_is_refused_without_a_recursion_error(content):
    with pytest.raises(Unreadable) as caught:
        read(content)
    assert caught.value.rule in ("yaml-depth", "yaml-syntax")


def test_a_byte_order_mark_is_no_part_of_the_first_key():
    assert read(b"\xef\xbb\xbfa: 1\n").value == {"a": 1}


@given(st.binary(max_size=60) | st.text("{}[]:,-?&*!|>'\"%@` \n\t#ab1.~<=", max_size=60).map(str.encode))
def test_any_bytes_are_a_document_or_refused_with_a_place(content):
    try:
        assert read(content).locate(()).line >= 1
    except Unreadable as error:
        assert error.mark.line >= 1  # noqa: PT017 - either


@pytest.mark.parametrize("loader", [yaml.SafeLoader, yaml.CSafeLoader])
@pytest.mark.parametrize(
    "content", [b'a: "\\uD800"', b'"\\uD800": a', b"[" * 500, b"a: &x 1", b"a: [1", b"a: \x01", b""]
)
def test_both_parsers_of_the_library_refuse_the_same(monkeypatch, loader, content):
    monkeypatch.setattr(module, "_LOADER", loader)
    with pytest.raises(Unreadable):
        read(content)
