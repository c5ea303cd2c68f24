"""Keeps what a program writes: a bounded excerpt in memory, all of it in a spool, each piece to the observer."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from executor.model.errors import Unavailable
from executor.model.run import Excerpt, StreamName
from executor.sandbox.bounded import BoundedBuffer

_NOTHING = Excerpt(head=b"", tail=b"", total_bytes=0)


class Observer(Protocol):
    """Hears what happens while it happens. Each method returns at once and never raises."""

    def started(self, tool_version: str) -> None: ...

    def output(self, stream: StreamName, data: bytes) -> None: ...


class Spool(Protocol):
    """Bytes on their way into the output store."""

    @property
    def ref(self) -> str: ...

    def write(self, data: bytes) -> bool:
        """True where much of what was written is still on its way."""
        ...

    async def keep(self) -> None:
        """Raises Unavailable where it could not be stored; then it is gone."""
        ...

    async def discard(self) -> None: ...


class Outputs(Protocol):
    def spool(self, tenant: str) -> Spool: ...

    async def put_all(self, contents: Sequence[bytes], tenant: str) -> Sequence[str | Unavailable]:
        """For each its ref, or why it could not be stored."""
        ...


class Recorder:
    """One per invocation. Most programs are silent on a stream, so what keeps one is made with its first byte."""

    def __init__(self, outputs: Outputs, tenant: str, text_bytes: int, observer: Observer) -> None:
        self._outputs, self._tenant, self._text_bytes = outputs, tenant, text_bytes
        self._observer = observer
        self._buffers: dict[StreamName, BoundedBuffer] = {}
        self._spools: dict[StreamName, Spool] = {}

    def on_output(self, stream: StreamName, data: bytes) -> bool:
        if (buffer := self._buffers.get(stream)) is None:
            buffer = self._buffers[stream] = BoundedBuffer(self._text_bytes, self._text_bytes)
        buffer.append(data)
        is_behind = self._spool(stream).write(data)
        self._observer.output(stream, data)
        return is_behind

    def excerpt(self, stream: StreamName) -> Excerpt:
        buffer = self._buffers.get(stream)
        return _NOTHING if buffer is None else buffer.excerpt()

    @property
    def total_bytes(self) -> int:
        """Of all streams so far."""
        return sum(buffer.total_bytes for buffer in self._buffers.values())

    def ref(self, stream: StreamName) -> str:
        return self._spool(stream).ref

    async def settle(self, *, keep: Iterable[StreamName]) -> dict[StreamName, str]:
        """Every spool is kept or gone when this returns; for each that should have been kept and was not, why."""
        wanted = frozenset(keep)
        lost: dict[StreamName, str] = {}
        for name, spool in self._spools.items():
            try:
                await (spool.keep() if name in wanted else spool.discard())
            except Unavailable as error:
                lost[name] = str(error)
        return lost

    def _spool(self, stream: StreamName) -> Spool:
        if (spool := self._spools.get(stream)) is None:
            spool = self._spools[stream] = self._outputs.spool(self._tenant)
        return spool
