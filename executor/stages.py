"""What the pipeline needs of its stages: small Protocols, declared by the one who needs them."""

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from executor.model.invocation import Invocation, Principal
from executor.model.limits import Limits
from executor.model.outcome import Outcome
from executor.model.tool import Tool


class Permission(Protocol):
    def check(self, principal: Principal, tool: Tool) -> None:
        """Raises InvocationError(PERMISSION_DENIED)."""
        ...


class Idempotency(Protocol):
    async def claim(self, invocation: Invocation, tool: Tool, arguments: Mapping[str, Any]) -> Outcome | None:
        """The stored outcome of the same call, or None where this one is to run.

        Raises InvocationError(KEY_REUSED).
        """
        ...


class Approval(Protocol):
    async def check(self, invocation: Invocation, tool: Tool, arguments: Mapping[str, Any]) -> None:
        """Raises InvocationError(APPROVAL_*), or ApprovalPending once approvals are kept."""
        ...


class Capacity(Protocol):
    def slot(
        self, principal: Principal, tool: Tool, cancelled: asyncio.Event, deadline: float | None
    ) -> AbstractAsyncContextManager[float]:
        """Holds a place while the block runs; gives the milliseconds waited for it. `deadline`: of `time.monotonic`.

        Raises InvocationError(OVERLOADED), InvocationError(TIMEOUT) where the deadline comes first, and
        InvocationCancelled while it waits.
        """
        ...


class Ledger(Protocol):
    """Each method returns when what it was told is as durable as the ledger promises. Raises Unavailable."""

    async def attempt(self, invocation: Invocation) -> None:
        """Somebody asked, whether or not it will be let through."""
        ...

    async def intend(self, invocation: Invocation, tool: Tool) -> None:
        """It is about to run."""
        ...

    async def conclude(self, invocation: Invocation, outcome: Outcome) -> None:
        """It ended."""
        ...


class Internal(Protocol):
    async def answer(self, invocation: Invocation, tool: Tool, arguments: Mapping[str, Any], limits: Limits) -> Outcome:
        """For tools that the service answers itself."""
        ...
