"""A whole service on the fake backend, reached through its own sockets."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from executor.admission.approval import NoApprovers
from executor.admission.capacity import Slots
from executor.admission.idempotency import NoReplay
from executor.admission.permission import DenyList
from executor.catalogue.catalogue import Catalogue
from executor.client import ExecutorClient
from executor.ingress.server import Server
from executor.internal import ReadOutput
from executor.model.limits import Limits
from executor.model.run import RunReport
from executor.model.tool import Command, Effect, Example, OutputExcess, Policy, Tool
from executor.pipeline import Pipeline
from executor.sandbox.fake import FakeBackend
from executor.sandbox.fake_machine import Call
from executor.sandbox.fake_programs import exited
from executor.stores.files import FileOutputStore
from executor.stores.memory import MemoryLedger

HEARTBEAT_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Served:
    server: Server
    backend: FakeBackend
    ledger: MemoryLedger
    pipeline: Pipeline

    @property
    def address(self) -> str:
        """Its Unix socket."""
        return self.server.addresses[0]

    @property
    def tcp_address(self) -> str:
        return self.server.addresses[1]

    def client(self, address: str | None = None) -> ExecutorClient:
        return ExecutorClient(address or self.address)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Bounded; for what another side does."""
        async with asyncio.timeout(10):
            while not condition():  # noqa: ASYNC110 - the other side has no event to wait for
                await asyncio.sleep(0.005)


def tool(name: str, *argv: str, version: str = "1.0.0", **kinds: str) -> Tool:
    """`kinds` are its parameters and their JSON types; all are required."""
    return Tool(
        name=name,
        version=version,
        description=f"Runs {argv[0]} of the fake's image. Not for anything real.",
        parameters={
            "type": "object",
            "properties": {key: {"type": kind, "description": f"The {key}."} for key, kind in kinds.items()},
            "required": list(kinds),
            "additionalProperties": False,
        },
        effect=Effect.READ_ONLY,
        policy=Policy(image="host", limits=Limits(wall_seconds=20.0)),
        command=Command(argv=argv),
        digest=f"sha256:{name}",
    )


def _tools() -> tuple[Tool, ...]:
    flood = tool("flood", "yes")
    return (
        replace(tool("echo", "echo", "{{text}}", text="string"), examples=(Example(arguments={"text": "a"}),)),
        tool("echo", "echo", "old", version="0.9.0"),
        tool("exit", "exit", "{{code}}", code="integer"),
        replace(flood, policy=replace(flood.policy, on_output_excess=OutputExcess.CUT)),
        tool("hog", "hog"),
        tool("python", "python3", "{{code}}", code="string"),
        tool("sleep", "sleep", "{{seconds}}", seconds="number"),
        tool("slow", "slow"),
        tool("write", "write", "{{path}}", "{{text}}", path="string", text="string"),
        tool("zeros", "zeros", "{{count}}", count="integer"),
    )


async def _python(call: Call) -> RunReport:
    """Knows the program of the examples: `print(<integer> * <integer>)`."""
    found = re.fullmatch(r"print\((\d+) \* (\d+)\)", call.argv[1])
    if found is None:
        return exited(1)
    await call.out(b"%d\n" % (int(found[1]) * int(found[2])))
    return exited(0)


async def _slow(call: Call) -> RunReport:
    """A line now, another after some heartbeats."""
    await call.out(b"first\n")
    await asyncio.sleep(4 * HEARTBEAT_SECONDS)
    await call.err(b"second\n")
    return exited(0)


@asynccontextmanager
async def serving(directory: Path, **server_options: Any) -> AsyncIterator[Served]:
    """Proves at its end that no sandbox, task or socket is left."""
    before = asyncio.all_tasks()
    backend = FakeBackend(programs={"python3": _python, "slow": _slow})
    outputs = FileOutputStore(directory / "outputs", ttl_seconds=600, quota_bytes=256 * 1024 * 1024)
    catalogue, ledger = Catalogue.of(_tools()), MemoryLedger()
    await backend.start()
    await outputs.start()
    pipeline = Pipeline(
        catalogue=catalogue,
        permission=DenyList(),
        idempotency=NoReplay(),
        approval=NoApprovers(),
        capacity=Slots(slots=8, queue_length=256, queue_timeout_seconds=30.0),
        ledger=ledger,
        backend=backend,
        outputs=outputs,
        internal=ReadOutput(outputs),
    )
    socket = directory / "run" / "executor.sock"
    options = {
        "pipeline": pipeline,
        "addresses": [f"unix:{socket}", "127.0.0.1:0"],
        "heartbeat_seconds": HEARTBEAT_SECONDS,
    }
    server = Server(catalogue=catalogue, outputs=outputs, **{**options, **server_options})
    try:
        async with server:
            yield Served(server, backend, ledger, pipeline)
    finally:
        await outputs.stop()
        await backend.stop()
    assert server.running_count == 0
    assert (backend.open_count, backend.opened_count) == (0, backend.closed_count)
    assert not socket.exists()
    async with asyncio.timeout(5):
        while left := asyncio.all_tasks() - before - {asyncio.current_task()}:
            await asyncio.wait(left)
