"""Events on their way from a run to a reader who may be slow. The run never waits: what does not fit is left out, and
the next piece of that stream says how much.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from executor.model.events import Event, Heartbeat, Output, Started
from executor.model.run import StreamName

CAPACITY_BYTES = 1024 * 1024
PIECE_BYTES = 64 * 1024
"""Largest piece of output; many small writes are joined up to here."""
OVERHEAD_BYTES = 128
"""What a piece costs beside its data, so that single bytes in turn on both streams are bounded too."""


@dataclass(slots=True)
class _Piece:
    source: StreamName
    offset: int
    skipped_bytes: int
    data: bytearray


class Feed:
    """The observer of one streamed invocation, and the events that its reader sees between Accepted and Ended."""

    def __init__(self, capacity_bytes: int = CAPACITY_BYTES) -> None:
        self._capacity_bytes = capacity_bytes
        self._waiting: deque[str | _Piece] = deque()  # a str is the version that started
        self._held_bytes = 0
        self._position: Counter[StreamName] = Counter()
        self._skipped: Counter[StreamName] = Counter()
        self._closed = False
        self._news = asyncio.Event()

    def started(self, tool_version: str) -> None:
        self._waiting.append(tool_version)
        self._news.set()

    def output(self, stream: StreamName, data: bytes) -> None:
        for start in range(0, len(data), PIECE_BYTES):
            self._add(stream, data[start : start + PIECE_BYTES])
        self._news.set()

    def close(self) -> None:
        """The run has ended. Idempotent."""
        if not self._closed:
            for source in [source for source, count in self._skipped.items() if count]:
                self._append(source, self._position[source], b"")
        self._closed = True
        self._news.set()

    async def events(self, *, first_sequence: int, heartbeat_seconds: float) -> AsyncGenerator[Event, None]:
        """To the end of the run; a heartbeat where nothing happened for so long."""
        loop = asyncio.get_running_loop()
        began, sequence = loop.time(), first_sequence
        while True:
            quiet = not await self._ready(heartbeat_seconds)
            if not quiet and not self._waiting:
                return
            if quiet:
                yield Heartbeat(sequence=sequence, elapsed_ms=int(1000 * (loop.time() - began)))
            else:
                yield self._take(sequence)
            sequence += 1

    async def _ready(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                while not self._waiting and not self._closed:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            return False
        return True

    def _take(self, sequence: int) -> Event:
        item = self._waiting.popleft()
        if isinstance(item, str):
            return Started(sequence=sequence, tool_version=item)
        self._held_bytes -= OVERHEAD_BYTES + len(item.data)
        return Output(
            sequence=sequence,
            source=item.source,
            offset=item.offset,
            data=bytes(item.data),
            skipped_bytes=item.skipped_bytes,
        )

    def _add(self, source: StreamName, data: bytes) -> None:
        offset = self._position[source]
        self._position[source] += len(data)
        if self._held_bytes + OVERHEAD_BYTES + len(data) > self._capacity_bytes:
            self._skipped[source] += len(data)
        elif not self._joined(source, data):
            self._append(source, offset, data)

    def _joined(self, source: StreamName, data: bytes) -> bool:
        last = self._waiting[-1] if self._waiting else None
        if not isinstance(last, _Piece) or last.source is not source or self._skipped[source]:
            return False
        if len(last.data) + len(data) > PIECE_BYTES:
            return False
        last.data += data
        self._held_bytes += len(data)
        return True

    def _append(self, source: StreamName, offset: int, data: bytes) -> None:
        self._waiting.append(_Piece(source, offset, self._skipped.pop(source, 0), bytearray(data)))
        self._held_bytes += OVERHEAD_BYTES + len(data)


class Silent:
    """The observer of an invocation that nobody watches."""

    def started(self, tool_version: str) -> None:
        pass

    def output(self, stream: StreamName, data: bytes) -> None:
        pass


SILENT = Silent()
