import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor.model.errors import BadRequest
from executor.stores.reading import OVERLAP_BYTES, WINDOW_BYTES, compile_expression, grep, lines, take

TEXT = b"zero\none\r\ntwo\n\nfour"


async def pieces(data: bytes, size: int):
    for at in range(0, len(data), size):
        yield data[at : at + size]


async def joined(source) -> bytes:
    return b"".join([piece async for piece in source])


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (0, None, TEXT),
        (0, 1, b"zero\n"),
        (1, 3, b"one\r\ntwo\n"),
        (3, 4, b"\n"),
        (4, 5, b"four"),
        (4, 99, b"four"),
        (5, None, b""),
        (2, 2, b""),
    ],
)
@pytest.mark.parametrize("size", [1, 4, 100])
async def test_a_range_of_lines_gives_their_exact_bytes(start, end, expected, size):
    assert await joined(lines(pieces(TEXT, size), start, end)) == expected


@given(
    st.lists(st.sampled_from([b"a", b"\n", b"bc", b"\r"]), max_size=30),
    st.integers(0, 8),
    st.integers(0, 8),
    st.integers(1, 9),
)
async def test_lines_agree_with_splitting_the_whole(parts, start, length, size):
    data = b"".join(parts)
    whole = [line + b"\n" for line in data.split(b"\n")]
    whole[-1] = whole[-1][:-1]
    expected = b"".join(whole[start : start + length])
    assert await joined(lines(pieces(data, size), start, start + length)) == expected


@pytest.mark.parametrize(("start", "end"), [(-1, 2), (3, 2)])
async def test_a_range_that_runs_backwards_is_refused(start, end):
    with pytest.raises(BadRequest, match="the first line is 0"):
        await joined(lines(pieces(TEXT, 9), start, end))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("o$", b"0:zero\n2:two\n"),
        ("^o", b"1:one\r\n"),
        ("e$", b"1:one\r\n"),
        ("^$", b"3:\n"),
        ("fo+", b"4:four\n"),
        ("(?i)FOUR", b"4:four\n"),
        ("absent", b""),
    ],
)
@pytest.mark.parametrize("size", [1, 4, 100])
async def test_lines_that_match_are_given_with_their_number_from_zero(expression, expected, size):
    assert await joined(grep(pieces(TEXT, size), expression)) == expected


async def test_bytes_that_are_no_utf8_are_searched_all_the_same():
    assert await joined(grep(pieces(b"\xff\xfe needle \xed\xa0\x80\nGr\xc3\xbc\xc3\x9fe\n", 5), "needle|ü")) == (
        b"0:\xff\xfe needle \xed\xa0\x80\n1:Gr\xc3\xbc\xc3\x9fe\n"
    )


async def test_a_match_anywhere_in_a_very_long_line_is_found():
    step = WINDOW_BYTES - OVERLAP_BYTES
    for at in (0, WINDOW_BYTES - 3, step - 3, step, 3 * step + 5, 400_000 - 6):
        line = bytearray(b"x" * 400_000)
        line[at : at + 6] = b"needle"
        found = await joined(grep(pieces(b"first\n" + bytes(line) + b"\nlast", 1000), "needle"))
        assert found.startswith(b"1+")
        assert found.count(b"needle") == found.count(b"1+")
        offset, _, window = found.partition(b"\n")[0].removeprefix(b"1+").partition(b":")
        assert int(offset) + window.index(b"needle") == at
        assert found.rstrip(b"\n").endswith(b"[...]") == (at < 400_000 - 6)


async def test_anchors_mean_the_line_and_not_a_window():
    line = b"start" + b"x" * 300_000 + b"end"
    assert (await joined(grep(pieces(line, 7000), "^start"))).count(b"start") == 1
    assert (await joined(grep(pieces(line, 7000), "end$"))).count(b"end") == 1
    assert await joined(grep(pieces(line, 7000), "^xx")) == b""
    assert await joined(grep(pieces(line, 7000), "xx$")) == b""


async def endless(total: int):
    piece = b"y" * 65536
    for _ in range(total // len(piece)):
        yield piece


@pytest.mark.parametrize("read", [lambda source: grep(source, "z"), lambda source: lines(source, 1, 2)])
async def test_a_line_of_a_hundred_megabytes_takes_little_memory(read):
    tracemalloc.start()
    assert await joined(read(endless(100_000_000))) == b""
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000


async def test_an_expression_that_would_be_exponential_elsewhere_is_linear():
    started = time.perf_counter()
    assert await joined(grep(pieces(b"a" * 60_000 + b"b\n", 65536), "^(a+)+$")) == b""
    assert time.perf_counter() - started < 2


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("ab(", r"missing \): ab\(, at position 0"),
        ("x[z-a]", r"invalid character class range: z-a, at position 2"),
        ("a(?=b)", r"at position 1 \(lookaround and backreferences do not exist in RE2\)"),
        (r"(a)\1", r"at position 3 \(lookaround"),
        ("a{5000}", "invalid repetition size"),
        ("\udc80", "lone surrogate"),
        ("a" * 1001, "at most 1000"),
    ],
)
def test_what_is_no_expression_is_refused_with_the_reason_and_the_place(expression, words):
    with pytest.raises(BadRequest, match=words):
        compile_expression(expression)


async def test_taking_stops_at_the_bound_and_says_so():
    assert (await take(pieces(b"abcdef", 2), 6)).complete
    taken = await take(pieces(b"abcdef", 2), 5)
    assert (taken.content, taken.complete) == (b"abcde", False)
    taken = await take(endless(10_000_000_000), 100)
    assert (taken.content, taken.complete) == (b"y" * 100, False)
