"""Lines on their way to a descriptor whose reader may be slow or gone. Whoever writes one never waits.

A thread of its own writes them; what does not fit meanwhile is left out, and a line in its place says how many. It
bypasses Python's buffered streams: a thread that hangs in one of those aborts the interpreter at its end.
"""

import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable

CAPACITY_BYTES = 1024 * 1024
OVERHEAD_BYTES = 64
"""What a line costs beside its text."""


class Lines:
    """A text stream as far as a log handler needs one. Thread-safe."""

    def __init__(self, fd: int, told: Callable[[int], str], *, capacity_bytes: int = CAPACITY_BYTES) -> None:
        """`told` gives the line that stands for so many lines left out."""
        self._fd, self.told, self._capacity_bytes = fd, told, capacity_bytes
        self._waiting: deque[bytes | int] = deque()  # an int counts what was left out here
        self._held_bytes = 0
        self._writing = self._closed = False
        self._news = threading.Condition()
        self._thread: threading.Thread | None = None

    def write(self, text: str) -> None:
        """One line or several, with their ends; whole or not at all. Nothing after `close`."""
        data = text.encode(errors="backslashreplace")
        with self._news:
            if self._closed:
                return
            if self._held_bytes + len(data) + OVERHEAD_BYTES <= self._capacity_bytes:
                self._waiting.append(data)
                self._held_bytes += len(data) + OVERHEAD_BYTES
            elif self._waiting and isinstance(self._waiting[-1], int):
                self._waiting[-1] += 1
            else:
                self._waiting.append(1)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="log lines", daemon=True)
                self._thread.start()
            self._news.notify_all()

    def flush(self) -> None:
        """Handlers call it after each line: nothing that may wait."""

    def close(self, seconds: float) -> None:
        """Gives what is still here so long to be written, then leaves it. Idempotent."""
        limit = time.monotonic() + seconds
        with self._news:
            while (self._waiting or self._writing) and (left := limit - time.monotonic()) > 0:
                self._news.wait(left)
            self._closed = True
            self._waiting.clear()
            self._news.notify_all()

    def _run(self) -> None:
        while (item := self._next()) is not None:
            data = item if isinstance(item, bytes) else self.told(item).encode(errors="backslashreplace")
            _write_all(self._fd, data)

    def _next(self) -> bytes | int | None:
        """None at the end."""
        with self._news:
            self._writing = False
            self._news.notify_all()
            while not self._waiting:
                if self._closed:
                    return None
                self._news.wait()
            item = self._waiting.popleft()
            self._writing = True
            if isinstance(item, bytes):
                self._held_bytes -= len(item) + OVERHEAD_BYTES
            return item


def _write_all(fd: int, data: bytes) -> None:
    """Nobody is told of a failure: this is where failures are told."""
    while data:
        try:
            data = data[os.write(fd, data) :]
        except BlockingIOError:  # somebody else who has the file made it so
            select.select([], [fd], [])
        except OSError:
            return
