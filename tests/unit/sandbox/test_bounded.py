import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from executor.model.run import StreamName
from executor.model.tool import OutputExcess
from executor.sandbox.bounded import BoundedBuffer, OutputMeter

sizes = st.integers(0, 12)


@given(st.lists(st.binary(max_size=40), max_size=20), sizes, sizes)
def test_the_excerpt_is_the_head_and_the_tail_whatever_the_pieces(pieces, head_bytes, tail_bytes):
    buffer = BoundedBuffer(head_bytes, tail_bytes)
    for piece in pieces:
        buffer.append(piece)
    whole, excerpt = b"".join(pieces), buffer.excerpt()
    assert excerpt.total_bytes == len(whole)
    assert excerpt.head == whole[:head_bytes]
    rest = whole[head_bytes:]
    assert excerpt.tail == rest[max(0, len(rest) - tail_bytes) :]
    assert excerpt.complete == (len(whole) <= head_bytes + tail_bytes)
    if excerpt.complete:
        assert excerpt.head + excerpt.tail == whole


OUT = StreamName.STDOUT


def test_memory_stays_flat_for_many_small_and_for_huge_pieces():
    buffer = BoundedBuffer(1024, 1024)
    huge = bytes(8_000_000)
    tracemalloc.start()
    for _ in range(50_000):
        buffer.append(b"y")
    for _ in range(50):
        buffer.append(huge)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20_000
    assert buffer.excerpt().total_bytes == 50_000 + 50 * 8_000_000


def test_exactly_the_limit_is_within_it():
    meter = OutputMeter(10, OutputExcess.KILL)
    assert meter.admit(OUT, b"12345") + meter.admit(OUT, b"67890") == b"1234567890"
    assert not meter.exceeded
    assert not meter.must_kill


def test_what_is_beyond_the_limit_is_counted_and_not_delivered():
    meter = OutputMeter(10, OutputExcess.KILL)
    assert meter.admit(OUT, b"12345678") == b"12345678"
    assert meter.admit(OUT, b"9abcd") == b"9a"
    assert meter.admit(OUT, b"more") == b""
    assert meter.exceeded
    assert meter.must_kill
    assert meter.dropped == {OUT: 7, StreamName.STDERR: 0}


def test_a_tool_whose_output_is_cut_is_not_killed():
    meter = OutputMeter(1, OutputExcess.CUT)
    assert meter.admit(OUT, b"ab") == b"a"
    assert meter.exceeded
    assert not meter.must_kill
