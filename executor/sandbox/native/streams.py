"""The pipes of a sandbox, on the event loop: what goes in, what comes out, never faster than it may."""

import asyncio
import contextlib
import os
from collections.abc import Callable

from executor.model.run import StreamName
from executor.sandbox.bounded import OutputMeter
from executor.sandbox.contract import OnOutput

PIECE_BYTES = 65536
DISCARD_SECONDS = 0.002
"""Between two pieces that are read only to be dropped, so that an endless writer cannot own the loop, or while the disk
is behind, so that what waits for it does not fill the memory.
"""


class Reader:
    """Gives each piece that the meter admits to `on_output`; calls `overflow` when the tree is to be killed for it."""

    def __init__(
        self, fd: int, name: StreamName, meter: OutputMeter, on_output: OnOutput, overflow: Callable[[], None]
    ) -> None:
        self._fd, self._name, self._meter, self._on_output, self._overflow = fd, name, meter, on_output, overflow
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        self._ended = self._rests = False
        os.set_blocking(fd, False)
        self._loop.add_reader(fd, self._read)

    def drain(self) -> None:
        """What is left in the pipe once nobody can write to it any more."""
        self._loop.remove_reader(self._fd)
        if self._pause:
            self._pause.cancel()
        while not self._ended:
            self._take()

    def _read(self) -> None:
        self._take()
        if self._ended:
            self._loop.remove_reader(self._fd)
        elif self._meter.exceeded or self._rests:
            self._loop.remove_reader(self._fd)
            self._pause = self._loop.call_later(DISCARD_SECONDS, self._resume)

    def _resume(self) -> None:
        self._loop.add_reader(self._fd, self._read)

    def _take(self) -> None:
        try:
            data = os.read(self._fd, PIECE_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._ended = True
            return
        if admitted := self._meter.admit(self._name, data):
            self._rests = bool(self._on_output(self._name, admitted))
        if self._meter.must_kill:
            self._overflow()


class Feeder:
    """Writes what the program is to read, as fast as it reads it, and closes the pipe. Owns `fd`."""

    def __init__(self, fd: int, data: bytes) -> None:
        self._fd = fd
        self._data = memoryview(data)
        self._loop = asyncio.get_running_loop()
        os.set_blocking(fd, False)
        if data:
            self._loop.add_writer(fd, self._write)
        else:
            self.close()

    def _write(self) -> None:
        with contextlib.suppress(BlockingIOError):
            try:
                self._data = self._data[os.write(self._fd, self._data) :]
            except BrokenPipeError:
                self._data = self._data[:0]  # the program does not want it
        if not self._data:
            self.close()

    def close(self) -> None:
        if self._fd >= 0:
            self._loop.remove_writer(self._fd)
            os.close(self._fd)
            self._fd = -1
