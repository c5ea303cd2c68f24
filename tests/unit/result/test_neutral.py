import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor.result import neutral

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
    "lone surrogate": (b"a\xed\xa0\x80b", r"a\ud800b"),
    "stray bytes": (b"a\xff\xc3b", "a\ufffd\ufffdb"),
    "windows line end": (b"a\r\nb\r\n", "a\nb\n"),
}


@pytest.mark.parametrize("name", SHOWN)
def test_what_acts_or_hides_is_shown_as_an_escape(name):
    data, shown = SHOWN[name]
    assert neutral.neutralise(neutral.decode(data)) == shown


@pytest.mark.parametrize("text", ["tab\tand\nnewline", "Grüße, 世界, مرحبا", "👍🏽 ⚠️ 1️⃣", r"C:\x1b", "\ufffd", ""])
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
    assert "".join(piece.shown for piece in neutral.pieces(text)) == shown


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), st.data())
def test_a_character_cut_by_our_own_limit_is_left_out_whole(text, data):
    encoded = text.encode()
    at = data.draw(st.integers(0, len(encoded)))
    head, tail = neutral.decode_head(encoded[:at]), neutral.decode_tail(encoded[at:])
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(text) - len(head) - len(tail) <= 1
