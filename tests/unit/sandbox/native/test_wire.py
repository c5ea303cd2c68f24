"""What travels between server, launcher, template and init: values unchanged, descriptors that nobody else inherits."""

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor.sandbox.native import wire
from executor.sandbox.native.plan import Layer, encode

Pair = tuple[socket.socket, socket.socket]

SCALARS = st.none() | st.integers() | st.text() | st.binary()
PLAIN = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner).map(tuple) | st.dictionaries(st.text(min_size=1), inner),
    max_leaves=20,
)


@pytest.fixture
def ends() -> Iterator[Pair]:
    with contextlib.ExitStack() as stack:
        yield tuple(stack.enter_context(contextlib.closing(end)) for end in wire.pair())


def opened(count: int) -> tuple[int, ...]:
    return tuple(os.open(os.devnull, os.O_RDONLY) for _ in range(count))


def descriptors() -> set[Path]:
    return set(Path("/proc/self/fd").iterdir())


def close(*fds: int) -> None:
    for fd in fds:
        os.close(fd)


# --- values ---------------------------------------------------------------------------------------------------------


@given(value=PLAIN)
def test_a_plain_value_travels_unchanged(value: object):
    assert wire.unpacked(wire.packed(value)) == value


@given(value=PLAIN)
def test_a_record_is_found_at_any_depth(value: object):
    layer = Layer(source="/a", target="/")
    again = wire.unpacked(encode((value, {"deep": ({"deeper": layer},)})))
    assert again[0] == value
    assert vars(again[1]["deep"][0]["deeper"]) == {"source": "/a", "target": "/"}


def test_a_record_within_a_record_is_one_too():
    inner = {**wire.A_RECORD, "number": 1}
    again = wire.unpacked(wire.packed({**wire.A_RECORD, "inner": inner, "list": [inner]}))
    assert again.inner.number == again.list[0].number == 1


def test_a_list_comes_as_a_tuple():
    assert wire.unpacked(wire.packed(["argv", ["0"]])) == ("argv", ("0",))


def test_a_record_without_fields_is_no_mapping():
    assert vars(wire.unpacked(wire.packed(wire.A_RECORD))) == {}


# --- packets --------------------------------------------------------------------------------------------------------


def test_a_packet_keeps_its_borders(ends: Pair):
    wire.send(ends[0], b"one")
    wire.send(ends[0], b"two")
    assert wire.receive(ends[1]) == (b"one", ())
    assert wire.receive(ends[1]) == (b"two", ())


def test_descriptors_come_in_their_order_and_close_on_exec(ends: Pair):
    fds = os.pipe()
    wire.send(ends[0], b"pipe", fds)
    data, (read, write) = wire.receive(ends[1], 2)
    try:
        os.write(write, b"through")
        assert data == b"pipe"
        assert os.read(read, 100) == b"through"
        assert not os.get_inheritable(read)
        assert not os.get_inheritable(write)
    finally:
        close(read, write, *fds)


def test_descriptors_that_nobody_asked_for_are_not_taken(ends: Pair):
    fds = opened(3)
    before = descriptors()
    wire.send(ends[0], b"unasked", fds)
    assert wire.receive(ends[1]) == (b"unasked", ())
    assert descriptors() == before
    close(*fds)


def test_the_end_of_the_other_is_told(ends: Pair):
    ends[0].close()
    with pytest.raises(wire.Gone, match="closed"):
        wire.receive(ends[1])


def test_what_was_said_before_the_end_is_still_heard(ends: Pair):
    wire.say(ends[0], "fault", "no room")
    ends[0].close()
    assert wire.receive(ends[1])[0] == b"fault no room"


def test_an_empty_packet_is_an_end_and_leaves_no_descriptor_open(ends: Pair):
    fds = opened(2)
    before = descriptors()
    wire.send(ends[0], b"", fds)
    with pytest.raises(wire.Gone):
        wire.receive(ends[1], 2)
    assert descriptors() == before
    close(*fds)


def test_nothing_to_hear_is_not_an_end(ends: Pair):
    ends[1].setblocking(False)  # noqa: FBT003
    with pytest.raises(BlockingIOError):
        wire.receive(ends[1])


# --- words ----------------------------------------------------------------------------------------------------------


@given(path=st.binary(min_size=1))
def test_a_word_that_is_no_utf8_travels_unchanged(path: bytes):
    word = path.decode("utf-8", "surrogateescape")
    one, other = wire.pair()
    with contextlib.closing(one), contextlib.closing(other):
        wire.say(one, "staging", 36, word)
        heard = wire.receive(other)[0].decode("utf-8", "surrogateescape")
    assert heard == f"staging 36 {word}"


def test_words_may_come_with_descriptors(ends: Pair):
    fds = opened(1)
    wire.say(ends[0], "built", 7, fds=fds)
    data, passed = wire.receive(ends[1], 1)
    assert data == b"built 7"
    assert len(passed) == 1
    close(*fds, *passed)


def test_a_file_in_memory_is_read_whole_and_closed():
    fd = os.memfd_create("order", os.MFD_CLOEXEC)
    os.write(fd, b"x" * 300_000)
    assert wire.read_file(fd) == b"x" * 300_000
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
