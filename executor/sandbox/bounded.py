"""What a program writes, held within bounds while it runs. Used by the recorder and by every backend.

Both types know that they were exceeded; neither knows what is done about it, nor what the bytes say.
"""

from executor.model.run import Excerpt, StreamName
from executor.model.tool import OutputExcess


class BoundedBuffer:
    """The first `head_bytes` and the last `tail_bytes` of a stream; memory is at most `head_bytes + 3 * tail_bytes`."""

    def __init__(self, head_bytes: int, tail_bytes: int) -> None:
        self._head_bytes, self._tail_bytes = head_bytes, tail_bytes
        self._head, self._tail = bytearray(), bytearray()
        self._total_bytes = 0

    @property
    def total_bytes(self) -> int:
        """Of the stream so far, kept or not."""
        return self._total_bytes

    def append(self, data: bytes) -> None:
        self._total_bytes += len(data)
        rest = memoryview(data)
        if room := self._head_bytes - len(self._head):
            self._head += rest[:room]
            rest = rest[room:]
        self._tail += rest[max(0, len(rest) - self._tail_bytes) :]
        # Trimmed only once the surplus is as long as the tail: each byte moves once, however small the pieces.
        if len(self._tail) > 2 * self._tail_bytes:
            del self._tail[: len(self._tail) - self._tail_bytes]

    def excerpt(self) -> Excerpt:
        surplus = max(0, len(self._tail) - self._tail_bytes)
        return Excerpt(head=bytes(self._head), tail=bytes(self._tail[surplus:]), total_bytes=self._total_bytes)


class OutputMeter:
    """Counts both streams of one run together against `limits.output_bytes`."""

    def __init__(self, limit_bytes: int, excess: OutputExcess) -> None:
        self._left_bytes = limit_bytes
        self._excess = excess
        self.dropped = dict.fromkeys(StreamName, 0)
        """Bytes read and not delivered."""

    def admit(self, stream: StreamName, data: bytes) -> bytes:
        """The part of `data` that may be delivered; the rest is counted as dropped."""
        admitted = data[: self._left_bytes]
        self._left_bytes -= len(admitted)
        self.dropped[stream] += len(data) - len(admitted)
        return admitted

    @property
    def exceeded(self) -> bool:
        """The program wrote more than the limit; exactly the limit is within it."""
        return any(self.dropped.values())

    @property
    def must_kill(self) -> bool:
        """The limit is exceeded, and the tool's policy says to end the program for it."""
        return self.exceeded and self._excess is OutputExcess.KILL
