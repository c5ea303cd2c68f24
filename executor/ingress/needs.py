"""What ingress needs of those who do the work."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Protocol

from executor.model.invocation import Invocation
from executor.model.outcome import Outcome
from executor.model.tool import Tool
from executor.sandbox.recorder import Observer

Unavailability = Callable[[Tool], str | None]
"""Why a tool cannot run on this host; None where it can."""


class Executes(Protocol):
    async def execute(self, invocation: Invocation, observer: Observer, cancelled: asyncio.Event) -> Outcome:
        """Ends soon after `cancelled` is set. Raises ServiceError only."""
        ...


class OutputReader(Protocol):
    """Each method raises NotFound for a ref that does not exist or is not the tenant's."""

    async def size(self, ref: str, tenant: str) -> int:
        """In bytes."""
        ...

    def read(self, ref: str, tenant: str, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """Bytes `start` to before `end`, in pieces that fit a message."""
        ...
