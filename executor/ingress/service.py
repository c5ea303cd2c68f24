"""The RPCs of `executor.v1.ExecutorService`. Knows the wire and who does the work; decides nothing about tools."""
# ruff: noqa: N802 - the methods have the names of the RPCs

import base64
import binascii
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager

from executor.catalogue.catalogue import Catalogue
from executor.codec import MalformedRequest, event_to_wire, offer, outcome_to_wire, tool_to_wire
from executor.ingress.calls import Context, invocation_of, principal_of
from executor.ingress.errors import Answered
from executor.ingress.feed import SILENT, Feed
from executor.ingress.needs import OutputReader, Unavailability
from executor.ingress.registry import Registry
from executor.model.errors import InvocationError, NotFound
from executor.model.events import Accepted, Ended, Event
from executor.model.tool import Tool
from executor.stores import reading
from executor.v1 import executor_pb2 as pb
from executor.v1 import executor_pb2_grpc as rpc

HEARTBEAT_SECONDS = 10.0
PAGE_SIZE = 100
MAX_PAGE_SIZE = 1000


class ExecutorService(rpc.ExecutorServiceServicer):
    def __init__(
        self,
        *,
        registry: Registry,
        catalogue: Catalogue,
        outputs: OutputReader,
        unavailable: Unavailability,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
    ) -> None:
        self._registry, self._catalogue, self._outputs = registry, catalogue, outputs
        self._unavailable, self._heartbeat_seconds = unavailable, heartbeat_seconds

    async def Execute(self, request: pb.ExecuteRequest, context: Context) -> pb.ExecuteResponse:
        async with Answered(context):
            async with self._registry.running(invocation_of(request, context), SILENT) as running:
                outcome = await running.outcome()
            return pb.ExecuteResponse(outcome=outcome_to_wire(outcome))

    async def ExecuteStream(  # type: ignore[override]  # writes; a generator of ours would be left open on cancellation
        self, request: pb.ExecuteStreamRequest, context: Context
    ) -> None:
        feed = Feed()
        async with Answered(context), self._registry.running(invocation_of(request, context), feed) as running:
            running.task.add_done_callback(lambda _: feed.close())
            last: Event = Accepted(sequence=1, invocation_id=running.invocation.invocation_id)
            await context.write(event_to_wire(last))
            async with aclosing(feed.events(first_sequence=2, heartbeat_seconds=self._heartbeat_seconds)) as events:
                async for last in events:
                    await context.write(event_to_wire(last))
            outcome = await running.outcome()
            await context.write(event_to_wire(Ended(sequence=last.sequence + 1, outcome=outcome)))

    async def CancelInvocation(
        self, request: pb.CancelInvocationRequest, context: Context
    ) -> pb.CancelInvocationResponse:
        async with Answered(context):
            target = request.WhichOneof("target")
            if target is None:
                raise MalformedRequest("target", "is missing: name an invocation_id or a call_id")
            those = self._registry.find(principal_of(context), **{target: getattr(request, target)})
            await self._registry.cancel(those)
            return pb.CancelInvocationResponse(cancelled_invocation_ids=[one.invocation.invocation_id for one in those])

    async def ReadOutput(  # type: ignore[override]  # writes, like ExecuteStream
        self, request: pb.ReadOutputRequest, context: Context
    ) -> None:
        async with Answered(context):
            tenant = principal_of(context).tenant
            start, end = _bounds("bytes", request.bytes) if request.HasField("bytes") else (0, None)
            total_bytes = await self._outputs.size(request.ref, tenant)
            await context.write(pb.ReadOutputResponse(total_bytes=total_bytes))
            async with _closing(self._outputs.read(request.ref, tenant, start, end)) as source:
                async for data in _selected(request, source):
                    await context.write(pb.ReadOutputResponse(data=data, total_bytes=total_bytes))

    async def ListTools(self, request: pb.ListToolsRequest, context: Context) -> pb.ListToolsResponse:
        async with Answered(context):
            if request.page_size < 0:
                raise MalformedRequest("page_size", "is negative")
            size = min(request.page_size or PAGE_SIZE, MAX_PAGE_SIZE)
            after = _name_in(request.page_token)
            rest = [tool for tool in self._catalogue.tools() if tool.name > after]
            token = _token(rest[size - 1].name) if len(rest) > size else ""
            return pb.ListToolsResponse(tools=map(self._shown, rest[:size]), next_page_token=token)

    async def GetTool(self, request: pb.GetToolRequest, context: Context) -> pb.GetToolResponse:
        async with Answered(context):
            version = request.version if request.HasField("version") else None
            try:
                tool = self._catalogue.find(request.name, version)
            except InvocationError as error:
                raise NotFound(f"{error.detail.message} {error.detail.suggestion or ''}".rstrip()) from None
            return pb.GetToolResponse(tool=self._shown(tool), versions=self._catalogue.versions(tool.name))

    def _shown(self, tool: Tool) -> pb.Tool:
        return tool_to_wire(offer(tool, self._unavailable(tool)))


@asynccontextmanager
async def _closing(source: AsyncIterator[bytes]) -> AsyncIterator[AsyncIterator[bytes]]:
    """An RPC that is cancelled leaves no file open until the garbage collector comes by."""
    try:
        yield source
    finally:
        if isinstance(source, AsyncGenerator):
            await source.aclose()


def _selected(request: pb.ReadOutputRequest, source: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    match request.WhichOneof("selection"):
        case "lines":
            return reading.lines(source, *_bounds("lines", request.lines))
        case "regex":
            return reading.grep(source, request.regex)
        case _:
            return source


def _bounds(field: str, asked: pb.Range) -> tuple[int, int | None]:
    end = asked.end if asked.HasField("end") else None
    if asked.start < 0 or (end is not None and end < asked.start):
        raise MalformedRequest(field, "needs 0 <= start <= end")
    return asked.start, end


def _token(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode()).decode()


def _name_in(token: str) -> str:
    """The name after which the page begins."""
    try:
        return base64.b64decode(token, altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise MalformedRequest("page_token", "is not one that this service gave out") from None
