"""`ExecutorClient`, the typed way to call a service. Speaks the model's types; the wire stays behind the codec."""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Self, TypedDict, Unpack

from executor.client.channel import connected, open_channel
from executor.client.errors import translated
from executor.codec import (
    MalformedRequest,
    ToolOffer,
    event_from_wire,
    invocation_to_wire,
    outcome_from_wire,
    tool_from_wire,
)
from executor.model.address import default_address
from executor.model.events import Event
from executor.model.invocation import InputFile, Invocation
from executor.model.outcome import Outcome
from executor.v1 import executor_pb2 as pb
from executor.v1 import executor_pb2_grpc as rpc

Arguments = Mapping[str, Any] | str
"""A str is JSON, and goes to the service exactly as it is."""
Range = tuple[int, int | None]
"""From the first, which is 0, up to and not including the second; None is the end."""

CONNECT_SECONDS = 5.0


class CallOptions(TypedDict, total=False):
    """What a call may say beside its tool and arguments. None is the same as absent."""

    version: str | None
    """Semantic version; absent means the newest."""
    call_id: str | None
    """Yours; comes back in the outcome, and is good for `cancel`."""
    trace_id: str | None
    """32 hex digits (W3C)."""
    files: Sequence[InputFile]
    """To write below /workspace before the tool starts."""
    collect: Sequence[str]
    """Globs of files to bring back; `**` crosses directories."""
    limits: Mapping[str, float]
    """Names of `Limits`; may only lower the tool's."""


class ExecutorClient:
    """One connection to a service; any number of calls at a time.

    What happens to a tool is in the outcome, also where it fails. Only the service's own trouble is raised, as a
    `ServiceError`; cancelling the task that waits kills the tool with all its processes.

        import asyncio

        from executor.client import ExecutorClient

        async def main():
            async with ExecutorClient() as client:
                outcome = await client.execute("python", {"code": "print(6 * 7)"}, timeout_seconds=30)
                print(outcome.state, outcome.exit_code, outcome.stdout.text)

        asyncio.run(main())
    """

    def __init__(self, address: str | None = None, *, connect_seconds: float = CONNECT_SECONDS) -> None:
        """`unix:/path` or a loopback `HOST:PORT`; None is this user's own service. Raises Misconfigured."""
        self.address = default_address() if address is None else address
        self._connect_seconds = connect_seconds
        self._channel = open_channel(self.address)
        self._stub = rpc.ExecutorServiceStub(self._channel)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Cancels what still runs. Idempotent."""
        await self._channel.close()

    async def execute(
        self,
        tool: str,
        arguments: Arguments,
        *,
        timeout_seconds: float | None = None,
        **options: Unpack[CallOptions],
    ) -> Outcome:
        """Run one tool once. The service ends the tool in time to answer before `timeout_seconds` are over.

        Raises ServiceError; DeadlinePassed where even the service did not answer in time.
        """
        wire = _wire(tool, arguments, options)
        await self._connected(timeout_seconds)
        with translated():
            response = await self._stub.Execute(pb.ExecuteRequest(invocation=wire), timeout=timeout_seconds)
        return outcome_from_wire(response.outcome)

    async def execute_stream(
        self,
        tool: str,
        arguments: Arguments,
        *,
        timeout_seconds: float | None = None,
        **options: Unpack[CallOptions],
    ) -> AsyncGenerator[Event, None]:
        """The same, event by event; the last is `Ended`, with the outcome.

        Closing the generator before that kills the tool: use `contextlib.aclosing` where you may leave early.
        """
        wire = _wire(tool, arguments, options)
        await self._connected(timeout_seconds)
        call = self._stub.ExecuteStream(pb.ExecuteStreamRequest(invocation=wire), timeout=timeout_seconds)
        try:
            with translated():
                async for message in call:
                    if event := event_from_wire(message):
                        yield event
        finally:
            call.cancel()

    async def cancel(self, *, invocation_id: str | None = None, call_id: str | None = None) -> tuple[str, ...]:
        """Kill what runs under one of the two ids. Gives the invocations that were running and are dead now; none is
        no error, for the call may just have ended.
        """
        if (invocation_id is None) == (call_id is None):
            raise MalformedRequest("target", "needs an invocation_id or a call_id, and not both")
        request = (
            pb.CancelInvocationRequest(invocation_id=invocation_id)
            if invocation_id is not None
            else pb.CancelInvocationRequest(call_id=call_id or "")
        )
        await self._connected(None)
        with translated():
            response = await self._stub.CancelInvocation(request)
        return tuple(response.cancelled_invocation_ids)

    async def read_output(
        self,
        ref: str,
        *,
        bytes: Range | None = None,  # noqa: A002 - the wire's word
        lines: Range | None = None,
        regex: str | None = None,
    ) -> AsyncGenerator["bytes", None]:
        """The bytes behind a ref of an outcome, in pieces; at most one of the three says which part of them.

        `regex` is an RE2 expression; lines that match come with their number in front. Raises NotFound.
        """
        if sum(part is not None for part in (bytes, lines, regex)) > 1:
            raise MalformedRequest("selection", "is given more than once: name bytes, lines or a regex")
        request = pb.ReadOutputRequest(ref=ref, bytes=_range(bytes), lines=_range(lines))
        if regex is not None:
            request.regex = regex
        await self._connected(None)
        call = self._stub.ReadOutput(request)
        try:
            with translated():
                async for message in call:
                    if message.data:
                        yield message.data
        finally:
            call.cancel()

    async def list_tools(self) -> tuple[ToolOffer, ...]:
        """The newest version of each tool, sorted by name."""
        tools: list[ToolOffer] = []
        request = pb.ListToolsRequest()
        await self._connected(None)
        while True:
            with translated():
                response = await self._stub.ListTools(request)
            tools.extend(map(tool_from_wire, response.tools))
            if not response.next_page_token:
                return tuple(tools)
            request = pb.ListToolsRequest(page_token=response.next_page_token)

    async def get_tool(self, name: str, version: str | None = None) -> ToolOffer:
        """Without a version the newest. Raises NotFound."""
        await self._connected(None)
        with translated():
            response = await self._stub.GetTool(pb.GetToolRequest(name=name, version=version))
        return tool_from_wire(response.tool)

    async def versions(self, name: str) -> tuple[str, ...]:
        """Of one tool, newest first. Raises NotFound."""
        await self._connected(None)
        with translated():
            response = await self._stub.GetTool(pb.GetToolRequest(name=name))
        return tuple(response.versions)

    async def _connected(self, timeout_seconds: float | None) -> None:
        seconds = self._connect_seconds if timeout_seconds is None else min(self._connect_seconds, timeout_seconds)
        await connected(self._channel, self.address, seconds)


def _wire(tool: str, arguments: Arguments, options: CallOptions) -> pb.Invocation:
    invocation = Invocation(
        invocation_id="",  # the service's to give
        tool=tool,
        arguments_json=arguments if isinstance(arguments, str) else _json(arguments),
        version=options.get("version"),
        call_id=options.get("call_id"),
        trace_id=options.get("trace_id"),
        files=tuple(options.get("files", ())),
        collect=tuple(options.get("collect", ())),
        limits=options.get("limits", {}),
    )
    return invocation_to_wire(invocation)


def _json(arguments: Mapping[str, Any]) -> str:
    try:
        return json.dumps(dict(arguments), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise MalformedRequest("invocation.arguments_json", f"cannot be made of these arguments: {error}") from None


def _range(asked: Range | None) -> pb.Range | None:
    return None if asked is None else pb.Range(start=asked[0], end=asked[1])
