"""What a peer is to the measuring: something that runs a row once. Those that cannot run here are named as absent."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from executor.bench.lines import Absence
from executor.bench.roots import Root
from executor.bench.rows import Row

CALL_SECONDS = 60.0
"""A call that takes longer has failed."""
NO_FILES = "it has no way to be given files and to give some back"


class CallFailed(Exception):
    """A call that did not do what its row says; the message tells what came instead."""


class Peer(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def every(self) -> int:
        """Takes part in each such round; more than 1 for those that would eat the time of all others."""
        ...

    @property
    def most_in_flight(self) -> int: ...
    @property
    def processes(self) -> frozenset[int]:
        """Work for it, beside our own descendants."""
        ...

    def refuses(self, row: Row) -> str | None:
        """Why it cannot run the row; None where it can."""
        ...

    async def call(self, row: Row) -> Mapping[str, float]:
        """Gives the parts that the peer itself tells, if any. Raises CallFailed."""
        ...


@dataclass(slots=True)
class Party:
    """All peers of a run; whatever was started for them ends with `stack`."""

    stack: AsyncExitStack
    directory: Path
    """Goes away with the run."""
    roots: Mapping[str, Root]
    peers: list[Peer] = field(default_factory=list)
    absences: list[Absence] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    """What did not stop as it should, or was left behind; complete when `stack` is closed."""
    posture: dict[str, object] = field(default_factory=dict)
    """The isolation of our own sandboxes, as an outcome tells it."""

    def lacks(self, peer: str, reason: str) -> None:
        self.absences.append(Absence(peer=peer, row=None, reason=reason))


Join = Callable[[Party], Awaitable[None]]
"""Adds a peer to the party, or the reason why it is absent."""


async def bounded(peer: Peer, row: Row) -> Mapping[str, float]:
    """Raises CallFailed, also where the time is up."""
    try:
        async with asyncio.timeout(CALL_SECONDS):
            return await peer.call(row)
    except TimeoutError:
        raise CallFailed(f"no answer within {CALL_SECONDS:g} s") from None


def compared(row: Row, status: int, output: bytes) -> None:
    """Raises CallFailed where that is not what the row says."""
    if status or output != row.stdout:
        raise CallFailed(f"exit status {status}, output {output[:_SHOWN_BYTES]!r}")


_SHOWN_BYTES = 300
