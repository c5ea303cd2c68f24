"""Keeps what a program writes: a bounded excerpt in memory, all of it in a spool, each piece to the observer."""

from collections.abc import Iterable
from typing import Protocol

from executor.model.errors import Unavailable
from executor.model.run import Excerpt, StreamName
from executor.sandbox.bounded import BoundedBuffer


class Observer(Protocol):
    """Hears what happens while it happens. Each method returns at once and never raises."""

    def started(self, tool_version: str) -> None: ...

    def output(self, stream: StreamName, data: bytes) -> None: ...


class Spool(Protocol):
    """Bytes on their way into the output store."""

    @property
    def ref(self) -> str: ...

    def write(self, data: bytes) -> None: ...

    async def keep(self) -> None:
        """Raises Unavailable where it could not be stored; then it is gone."""
        ...

    async def discard(self) -> None: ...


class Outputs(Protocol):
    def spool(self, tenant: str) -> Spool: ...

    async def put(self, content: bytes, tenant: str) -> str:
        """Gives the ref."""
        ...


class Recorder:
    """One per invocation."""

    def __init__(self, outputs: Outputs, tenant: str, text_bytes: int, observer: Observer) -> None:
        self._observer = observer
        self._buffers = {name: BoundedBuffer(text_bytes, text_bytes) for name in StreamName}
        self._spools = {name: outputs.spool(tenant) for name in StreamName}

    def on_output(self, stream: StreamName, data: bytes) -> None:
        self._buffers[stream].append(data)
        self._spools[stream].write(data)
        self._observer.output(stream, data)

    def excerpt(self, stream: StreamName) -> Excerpt:
        return self._buffers[stream].excerpt()

    def ref(self, stream: StreamName) -> str:
        return self._spools[stream].ref

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
