"""A server as the target of a command. The only module of the command line that loads gRPC, and only when asked."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any

from executor.cli.target import WHOLE, Part
from executor.client import ExecutorClient
from executor.codec import ToolOffer
from executor.model.errors import NotFound, Unavailable
from executor.model.events import Accepted, Ended
from executor.model.invocation import Invocation
from executor.model.outcome import Outcome


@asynccontextmanager
async def connect(address: str) -> AsyncIterator["There"]:
    """Raises Misconfigured for an address that is not valid."""
    async with ExecutorClient(address) as client:
        yield There(client)


class There:
    def __init__(self, client: ExecutorClient) -> None:
        self._client = client

    async def parameters(self, tool: str, version: str | None) -> Mapping[str, Any]:
        try:
            return (await self._client.get_tool(tool, version)).parameters
        except NotFound:
            return {}

    async def offers(self) -> tuple[ToolOffer, ...]:
        return await self._client.list_tools()

    async def offer(self, name: str, version: str | None) -> tuple[ToolOffer, tuple[str, ...]]:
        return await self._client.get_tool(name, version), await self._client.versions(name)

    async def execute(self, invocation: Invocation, cancelled: asyncio.Event) -> Outcome:
        """As a stream, because a cancelled stream still ends in an outcome."""
        accepted: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        canceller = asyncio.create_task(self._cancel(cancelled, accepted))
        try:
            return await self._outcome(invocation, accepted)
        finally:
            canceller.cancel()
            await asyncio.wait((canceller,))
            if not canceller.cancelled():
                canceller.exception()  # seen: where the server is gone, the stream has told so

    def read(self, ref: str, part: Part = WHOLE) -> AsyncIterator[bytes]:
        return self._client.read_output(ref, bytes=part.bytes, lines=part.lines, regex=part.regex)

    async def _outcome(self, invocation: Invocation, accepted: asyncio.Future[str]) -> Outcome:
        events = self._client.execute_stream(
            invocation.tool,
            invocation.arguments_json,
            timeout_seconds=_left(invocation),
            version=invocation.version,
            call_id=invocation.call_id,
            trace_id=invocation.trace_id,
            files=invocation.files,
            collect=invocation.collect,
            limits=invocation.limits,
        )
        async with aclosing(events):
            async for event in events:
                match event:
                    case Accepted():
                        accepted.set_result(event.invocation_id)
                    case Ended():
                        return event.outcome
        raise Unavailable("the server ended the call without an outcome; whether the tool ran is not known")

    async def _cancel(self, cancelled: asyncio.Event, accepted: asyncio.Future[str]) -> None:
        await cancelled.wait()
        await self._client.cancel(invocation_id=await accepted)


def _left(invocation: Invocation) -> float | None:
    if invocation.deadline is None:
        return None
    return max(0.001, invocation.deadline - time.monotonic())
