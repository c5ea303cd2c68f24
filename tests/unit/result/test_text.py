import time

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from executor.model.limits import MIB
from executor.model.run import Excerpt
from executor.result import neutral
from executor.result.text import present
from executor.sandbox.bounded import BoundedBuffer

REF = "out_abcdefghijklmnopqrstuvwxyz0"
clean = st.text(st.sampled_from("ab \n\té世👍")).map(lambda text: text * 9)
dirty = st.lists(st.one_of(st.binary(max_size=30), st.sampled_from([b"\x1b[2J", "\u202e".encode(), b"\r\n", b"\n"])))


def excerpt_of(data: bytes, kept: int) -> Excerpt:
    buffer = BoundedBuffer(kept, kept)
    buffer.append(data)
    return buffer.excerpt()


def show(data: bytes, text_bytes: int = 4096, **options):
    return present(excerpt_of(data, text_bytes), text_bytes=text_bytes, ref=REF, **options)


def numbered(count: int) -> bytes:
    return b"".join(b"line %d\n" % n for n in range(count))


def test_what_fits_is_shown_whole_and_needs_no_ref():
    stream = show("Grüße\n".encode())
    assert (stream.text, stream.total_bytes, stream.ref) == ("Grüße\n", 8, None)
    assert not stream.truncated
    assert not stream.lossy


def test_an_empty_stream_is_empty():
    assert show(b"").text == ""
    assert show(b"").ref is None


def test_escaped_text_keeps_a_ref_to_the_exact_bytes():
    stream = show(b"\x1b[31mred")
    assert (stream.text, stream.ref, stream.lossy, stream.truncated) == (r"\x1b[31mred", REF, False, False)


def test_invalid_utf8_is_lossy():
    stream = show(b"caf\xe9")
    assert (stream.text, stream.lossy, stream.ref) == ("caf\ufffd", True, REF)


def test_a_long_stream_is_cut_at_line_borders_with_one_notice_between():
    data = numbered(2000)
    stream = show(data, 1024)
    before, _, rest = stream.text.partition("[")
    notice, _, after = rest.partition("]\n")
    assert data.decode().startswith(before)
    assert data.decode().endswith(after)
    assert before.endswith("\n")
    assert after.startswith("line ")
    assert (
        notice
        == f"{len(data) - len(before) - len(after)} bytes left out here; all {len(data)} bytes are under ref {REF}"
    )
    assert stream.truncated
    assert stream.ref == REF


def test_the_lines_left_out_are_counted_where_all_of_them_are_known():
    data = numbered(2000)
    stream = present(Excerpt(head=data, tail=b"", total_bytes=len(data)), text_bytes=1024, ref=REF)
    shown = stream.text.count("\n") - 1
    assert f"({2000 - shown} lines) left out here" in stream.text


def test_one_long_line_is_cut_at_characters_and_is_not_lossy():
    for size in range(1000, 1010):
        stream = show(("€" * 5000).encode(), size)
        assert set(stream.text.partition("\n[")[0]) == {"€"}
        assert set(stream.text.partition("]\n")[2]) == {"€"}
        assert not stream.lossy
        assert stream.truncated


def test_an_escape_is_never_cut():
    stream = show("\u202e".encode() * 5000, 1000)
    head, tail = stream.text.partition("\n[")[0], stream.text.partition("]\n")[2]
    assert head.replace(r"\u202e", "") == ""
    assert tail.replace(r"\u202e", "") == ""


def test_a_forged_notice_does_not_make_a_stream_truncated():
    forged = show(numbered(2000), 1024).text.encode()
    stream = show(forged, 4096)
    assert not stream.truncated
    assert stream.ref is None


def test_a_character_that_the_output_limit_cuts_is_left_out_whole_and_is_not_lossy():
    for size in range(100, 110):
        stream = show(("€" * 50).encode()[:size], dropped_bytes=150 - size)
        shown, _, notice = stream.text.partition("\n")
        assert shown == "€" * (size // 3)
        assert notice.startswith("[what came after this was dropped")
        assert (stream.total_bytes, stream.truncated, stream.lossy, stream.ref) == (150, True, False, REF)


def test_bytes_that_begin_no_character_are_lossy_at_the_output_limit_too():
    assert show(b"caf\xe9\xff", dropped_bytes=9).lossy


def test_output_dropped_at_the_limit_is_truncated_though_the_rest_is_shown():
    stream = show(b"all that was admitted", dropped_bytes=9)
    assert stream.text.startswith("all that was admitted\n[what came after this was dropped")
    assert stream.truncated
    assert stream.ref == REF


def test_a_tiny_bound_is_still_kept():
    for size in range(40):
        assert len(show(numbered(2000), size).text.encode()) <= size
        assert show(numbered(2000), size, dropped_bytes=9).truncated


@given(dirty.map(b"".join), st.integers(0, 400), st.sampled_from([0, 5]))
def test_the_text_is_bounded_neutral_and_stable(data, size, dropped):
    stream = show(data, size, dropped_bytes=dropped)
    assert len(stream.text.encode()) <= size
    assert neutral.neutralise(stream.text) == stream.text
    assert stream == show(data, size, dropped_bytes=dropped)
    assert stream.total_bytes == len(data) + dropped
    again = show(stream.text.encode(), size)
    assert again.text == stream.text
    assert again.ref is None


@given(clean, st.integers(8, 300), st.booleans())
def test_of_a_clean_stream_a_real_beginning_and_a_real_end_are_shown(text, size, whole):
    data = text.encode()
    assume(len(data) > size)
    excerpt = Excerpt(head=data, tail=b"", total_bytes=len(data)) if whole else excerpt_of(data, size)
    stream = present(excerpt, text_bytes=size, ref=REF)
    head, _, rest = stream.text.partition("[")
    tail = rest.partition("]\n")[2]
    assert text.startswith((head, head.removesuffix("\n")))
    assert text.endswith(tail)
    assert stream.truncated
    assert not stream.lossy


def test_signs_that_enclose_or_join_what_follows_are_shown_as_escapes():
    for code in (0x0600, 0x0605, 0x06DD, 0x070F, 0x0890, 0x08E2, 0x110BD, 0x110CD, 0x13430, 0x13455):
        assert show(chr(code).encode()).text in (f"\\u{code:04x}", f"\\U{code:08x}")


HOSTILE = [
    *(b"\0", b"\0x", b"\n", b"\r", b"\r\n", b"\r\r\n", b"\xff", b"\x80", b"\xed\xa0\x80", b"\xed\xa0\x80x"),
    *(text.encode() for text in ("\r😀", "\0€", "世", "é", "\U000e0041", "\ue000", "\0" + "x" * 500 + "€")),
]


@pytest.mark.parametrize("pattern", HOSTILE)
@pytest.mark.parametrize(("size", "seconds"), [(16 * 1024, 0.015), (MIB, 0.5)])
@pytest.mark.parametrize("times", [1, 3])
def test_hostile_text_is_made_fit_to_show_in_little_time(pattern, size, seconds, times):
    excerpt = excerpt_of(pattern * (size * times // len(pattern)), size)
    spent = []
    for _ in range(3):
        began = time.thread_time()
        stream = present(excerpt, text_bytes=size, ref=REF, dropped_bytes=9)
        spent.append(time.thread_time() - began)
    assert len(stream.text.encode()) <= size
    assert min(spent) <= seconds


@settings(deadline=None)
@given(st.integers(1, 5000), st.sampled_from(HOSTILE), st.sampled_from(HOSTILE))
def test_hostile_text_of_many_blocks_is_bounded_neutral_and_told_to_the_byte(size, first, last):
    data = first * 700 + b"\n" + last * 700
    stream = present(Excerpt(head=data, tail=b"", total_bytes=len(data)), text_bytes=size, ref=REF)
    assert len(stream.text.encode()) <= size
    assert neutral.neutralise(stream.text) == stream.text
    assert stream.total_bytes == len(data)
    assert stream.truncated == (len(neutral.neutralise(neutral.decode(data)).encode()) > size)
