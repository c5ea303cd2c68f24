import asyncio
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from executor.ingress.feed import CAPACITY_BYTES, OVERHEAD_BYTES, PIECE_BYTES, Feed
from executor.model.events import Event, Heartbeat, Output, Started
from executor.model.run import StreamName

OUT, ERR = StreamName.STDOUT, StreamName.STDERR


async def drained(feed: Feed) -> list[Event]:
    feed.close()
    return [event async for event in feed.events(first_sequence=2, heartbeat_seconds=60)]


async def test_events_come_in_order_and_are_numbered() -> None:
    feed = Feed()
    feed.started("1.2.3")
    feed.output(OUT, b"one")
    feed.output(ERR, b"two")
    feed.output(OUT, b"three")
    assert await drained(feed) == [
        Started(sequence=2, tool_version="1.2.3"),
        Output(sequence=3, source=OUT, offset=0, data=b"one"),
        Output(sequence=4, source=ERR, offset=0, data=b"two"),
        Output(sequence=5, source=OUT, offset=3, data=b"three"),
    ]


async def test_small_writes_are_joined_and_large_ones_divided() -> None:
    feed = Feed()
    for _ in range(1000):
        feed.output(OUT, b"x")
    feed.output(ERR, bytes(2 * PIECE_BYTES + 1))
    lengths = [len(event.data) for event in await drained(feed) if isinstance(event, Output)]
    assert lengths == [1000, PIECE_BYTES, PIECE_BYTES, 1]


async def test_what_does_not_fit_is_left_out_and_the_next_piece_says_so() -> None:
    feed = Feed(capacity_bytes=2 * OVERHEAD_BYTES + 8)
    events = feed.events(first_sequence=1, heartbeat_seconds=60)
    feed.output(OUT, b"12345")
    feed.output(OUT, bytes(500))
    feed.output(ERR, b"e")
    assert await anext(events) == Output(sequence=1, source=OUT, offset=0, data=b"12345")
    assert await anext(events) == Output(sequence=2, source=ERR, offset=0, data=b"e")
    feed.output(OUT, b"6")
    assert await anext(events) == Output(sequence=3, source=OUT, offset=505, data=b"6", skipped_bytes=500)
    await events.aclose()


async def test_what_was_left_out_at_the_very_end_is_told_too() -> None:
    feed = Feed(capacity_bytes=OVERHEAD_BYTES + 1)
    feed.output(OUT, b"1")
    feed.output(OUT, b"234")
    assert (await drained(feed))[-1] == Output(sequence=3, source=OUT, offset=4, data=b"", skipped_bytes=3)


async def test_a_heartbeat_comes_where_nothing_happens() -> None:
    feed = Feed()
    events = feed.events(first_sequence=1, heartbeat_seconds=0.001)
    assert isinstance(await anext(events), Heartbeat)
    feed.started("1.0.0")
    assert await anext(events) == Started(sequence=2, tool_version="1.0.0")
    await events.aclose()


async def test_a_reader_that_waits_is_woken_by_the_end() -> None:
    feed = Feed()
    reading = asyncio.ensure_future(anext(feed.events(first_sequence=1, heartbeat_seconds=60), None))
    await asyncio.sleep(0)
    feed.close()
    assert await reading is None


@given(
    st.lists(st.tuples(st.sampled_from(StreamName), st.integers(0, 400), st.booleans()), max_size=60),
    st.integers(0, 2000),
)
def test_nothing_is_lost_in_silence_and_the_memory_is_bounded(
    steps: list[tuple[StreamName, int, bool]], capacity: int
) -> None:
    async def play() -> None:
        feed, written = Feed(capacity), Counter[StreamName]()
        events, heard = feed.events(first_sequence=1, heartbeat_seconds=60), []
        for stream, length, read in steps:
            feed.output(stream, bytes(length))
            written[stream] += length
            assert feed._held_bytes <= capacity
            if read and feed._waiting:
                heard.append(await anext(events))
        feed.close()
        heard += [event async for event in events]
        assert [event.sequence for event in heard] == list(range(1, len(heard) + 1))
        position = Counter[StreamName]()
        for event in heard:
            assert event.offset == position[event.source] + event.skipped_bytes
            position[event.source] = event.offset + len(event.data)
        assert +position == +written
        assert feed._held_bytes == 0

    asyncio.run(play())


def test_the_bound_holds_several_pieces() -> None:
    assert CAPACITY_BYTES >= 8 * (PIECE_BYTES + OVERHEAD_BYTES)
