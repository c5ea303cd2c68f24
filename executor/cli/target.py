"""Where a call runs: in this process, or at a server. The commands see no difference."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from executor.app import MakeBackend, Service, for_one_call, open_service
from executor.model.errors import InvocationError
from executor.model.invocation import LOCAL, Invocation
from executor.model.outcome import Outcome
from executor.model.run import StreamName
from executor.settings import Settings

Range = tuple[int, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Of an output; at most one is set."""

    bytes: Range | None = None
    lines: Range | None = None
    regex: str | None = None


WHOLE = Part()


class Target(Protocol):
    async def parameters(self, tool: str, version: str | None) -> Mapping[str, Any]:
        """The tool's JSON Schema; empty where there is no such tool, which the call itself will tell."""
        ...

    async def execute(self, invocation: Invocation, cancelled: asyncio.Event) -> Outcome: ...

    def read(self, ref: str) -> AsyncIterator[bytes]:
        """Raises NotFound."""
        ...


class Here:
    """The pipeline of this process."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def parameters(self, tool: str, version: str | None) -> Mapping[str, Any]:
        try:
            return self._service.catalogue.find(tool, version).parameters
        except InvocationError:
            return {}

    async def execute(self, invocation: Invocation, cancelled: asyncio.Event) -> Outcome:
        return await self._service.pipeline.execute(invocation, _Silent(), cancelled)

    def read(self, ref: str) -> AsyncIterator[bytes]:
        return self._service.outputs.read(ref, LOCAL.tenant)


class _Silent:
    """Shows nothing while the call runs."""

    def started(self, tool_version: str) -> None:
        del tool_version

    def output(self, stream: StreamName, data: bytes) -> None:
        del stream, data


@asynccontextmanager
async def open_target(settings: Settings, address: str | None, make_backend: MakeBackend) -> AsyncIterator[Target]:
    """Raises ServiceError."""
    if address is None:
        async with open_service(for_one_call(settings), make_backend) as service:
            yield Here(service)
        return
    # gRPC takes a third of a second to load, and must not be in a process that forks sandboxes.
    from executor.cli.remote import connect  # noqa: PLC0415

    async with connect(address) as target:
        yield target
