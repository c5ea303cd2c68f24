import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor.result import neutral

RAW = re.compile("\r\n|\udced[\udca0-\udcbf][\udc80-\udcbf]|.", re.DOTALL)
"""What is shown as one."""
ACTING = {"Cc", "Cf", "Zl", "Zp"}
KEPT = "\t\n"
SHOWN = {
    "clear screen": (b"\x1b[2J", r"\x1b[2J"),
    "clipboard": (b"\x1b]52;c;AAAA\x07", r"\x1b]52;c;AAAA\x07"),
    "hyperlink": (b"\x1b]8;;http://x\x1b\\y", r"\x1b]8;;http://x\x1b\y"),
    "eight-bit CSI": ("\x9b2J".encode(), r"\x9b2J"),
    "overwrite": (b"safe\rrm -rf", r"safe\rrm -rf"),
    "backspace": (b"ab\x08c", r"ab\x08c"),
    "NUL and DEL": (b"a\x00b\x7f", r"a\x00b\x7f"),
    "bidi override": ("a\u202eb".encode(), r"a\u202eb"),
    "bidi isolate": ("a\u2066b".encode(), r"a\u2066b"),
    "zero width": ("a\u200b\u200d\u2060b".encode(), r"a\u200b\u200d\u2060b"),
    "tags": ("a\U000e0041b".encode(), r"a\U000e0041b"),
    "selector supplement": ("a\U000e0100b".encode(), r"a\U000e0100b"),
    "separators": ("a\u2028b\u2029c".encode(), r"a\u2028b\u2029c"),
    "byte order mark": (b"\xef\xbb\xbfa", r"\ufeffa"),
    "emoji that are joined": ("👩\u200d💻".encode(), r"👩\u200d💻"),
    "no characters": ("a\ufdd0\ufffe\U0001ffff".encode(), r"a\ufdd0\ufffe\U0001ffff"),
    "lone surrogate": (b"a\xed\xa0\x80b", r"a\ud800b"),
    "stray bytes": (b"a\xff\xc3b", "a\ufffd\ufffdb"),
    "windows line end": (b"a\r\nb\r\n", "a\nb\n"),
}


@pytest.mark.parametrize("name", SHOWN)
def test_what_acts_or_hides_is_shown_as_an_escape(name):
    data, shown = SHOWN[name]
    assert neutral.neutralise(neutral.decode(data)) == shown


@pytest.mark.parametrize(
    "text", ["tab\tand\nnewline", "Grüße, 世界, مرحبا", "👍🏽 ⚠️ 1️⃣ 🏳️", "\ue0a0\uf121", r"C:\x1b", "\ufffd", ""]
)
def test_honest_text_stays_as_it_is(text):
    assert neutral.neutralise(text) == text
    assert not neutral.is_lossy(neutral.decode(text.encode()))


@given(st.binary())
def test_decoding_loses_nothing(data):
    text = neutral.decode(data)
    assert text.encode("utf-8", "surrogateescape") == data
    assert neutral.source_bytes(text) == len(data)
    assert neutral.is_lossy(text) == _invalid(data)


def _invalid(data):
    try:
        data.decode()
    except UnicodeDecodeError:
        return True
    return False


@given(st.one_of(st.binary().map(neutral.decode), st.text(st.characters(exclude_categories=["Cs"]))))
def test_nothing_that_controls_is_left_and_a_second_pass_changes_nothing(text):
    shown = neutral.neutralise(text)
    assert neutral.neutralise(shown) == shown
    assert not [c for c in shown if unicodedata.category(c) in {"Cc", "Zl", "Zp", "Cs"} and c not in "\t\n"]
    assert shown == "".join(neutral.neutralise(one) for one in RAW.findall(text))


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), st.data())
def test_a_character_cut_by_our_own_limit_is_left_out_whole(text, data):
    encoded = text.encode()
    at = data.draw(st.integers(0, len(encoded)))
    head, tail = neutral.decode_head(encoded[:at]), neutral.decode_tail(encoded[at:])
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(text) - len(head) - len(tail) <= 1


def test_every_character_that_controls_or_formats_is_escaped_and_no_letter_is():
    for code in (code for code in range(0x110000) if not 0xD800 <= code < 0xE000):
        character = chr(code)
        category = unicodedata.category(character)
        if category in ACTING and character not in KEPT:
            assert neutral.neutralise(character).startswith("\\"), hex(code)
        if category[0] in "NPS" or category in {"Lu", "Ll", "Lt", "Lm", "Zs", "Mc", "Me", "Co"} or character in KEPT:
            assert neutral.neutralise(character) == character, hex(code)


def test_every_surrogate_is_shown_as_one_escape():
    for code in range(0xD800, 0xE000):
        data = chr(code).encode("utf-8", "surrogatepass")
        assert neutral.neutralise(neutral.decode(data + b"x")) == f"\\u{code:04x}x"


stray = st.lists(st.sampled_from([b"\xed", b"\xa0", b"\x80", b"\xed\xa0\x80", b"\r", b"\n", b"x"])).map(b"".join)


@given(stray, st.integers(0, 60))
def test_a_cut_that_parts_nothing_changes_nothing_that_is_shown(data, at):
    text = neutral.decode(data)
    borders = neutral.parted(text, min(at, len(text)))
    assert borders[0] <= min(at, len(text)) <= borders[1]
    for border in borders:
        assert neutral.neutralise(text[:border]) + neutral.neutralise(text[border:]) == neutral.neutralise(text)


@given(stray)
def test_what_is_shown_as_one_is_what_a_cut_can_part(data):
    text = neutral.decode(data)
    starts = {match.start() for match in RAW.finditer(text)} | {len(text)}
    assert {at for at in range(len(text) + 1) if neutral.parted(text, at) == (at, at)} == starts
