"""Our own service as two peers: a server of its own, called over gRPC; and the same journey inside this process."""

import asyncio
import contextlib
import itertools
import json
import os
import sys
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from executor import codec
from executor.app import Service, open_service
from executor.model.errors import ServiceError, Unavailable
from executor.model.invocation import Invocation
from executor.model.outcome import Outcome, State
from executor.model.run import StreamName
from executor.sandbox.native.facilities import missing_controllers
from executor.settings import Settings

from .figures import PARTS
from .lines import IN_PROCESS, OURS
from .peer import CALL_SECONDS, CallFailed, Party
from .rows import Row

if TYPE_CHECKING:
    from executor.client import ExecutorClient

CATALOGUE = Path(__file__).resolve().parent.parent / "catalogue"
READY_SECONDS = 60.0
STOP_SECONDS = 40.0
_SHOWN_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Served:
    """At the client, over gRPC."""

    client: "ExecutorClient"
    name: str = OURS
    every: int = 1
    most_in_flight: int = 1024
    processes: frozenset[int] = frozenset()

    def refuses(self, row: Row) -> str | None:
        del row
        return None

    async def call(self, row: Row) -> Mapping[str, float]:
        return checked(row, await self.ask(row))

    async def ask(self, row: Row) -> Outcome:
        try:
            return await self.client.execute(
                row.tool, row.arguments, files=row.files, collect=row.collect, timeout_seconds=CALL_SECONDS
            )
        except ServiceError as error:
            raise CallFailed(f"{type(error).__name__}: {error}") from error


class _Deaf:
    """An observer of a call that nobody watches."""

    def started(self, tool_version: str) -> None:
        """Not told to anybody."""

    def output(self, stream: StreamName, data: bytes) -> None:
        """Not told to anybody; the outcome has it."""


@dataclass(frozen=True, slots=True)
class InProcess:
    """The pipeline without gRPC."""

    service: Service
    numbers: "itertools.count[int]"
    name: str = IN_PROCESS
    every: int = 1
    most_in_flight: int = 1024
    processes: frozenset[int] = frozenset()

    def refuses(self, row: Row) -> str | None:
        del row
        return None

    async def call(self, row: Row) -> Mapping[str, float]:
        invocation = Invocation(
            invocation_id=f"inv_{next(self.numbers):032x}",
            tool=row.tool,
            arguments_json=json.dumps(row.arguments),
            files=row.files,
            collect=row.collect,
        )
        try:
            outcome = await self.service.pipeline.execute(invocation, _Deaf(), asyncio.Event())
        except ServiceError as error:
            raise CallFailed(f"{type(error).__name__}: {error}") from error
        return checked(row, outcome)


def checked(row: Row, outcome: Outcome) -> Mapping[str, float]:
    """The parts of a call that did what its row says. Raises CallFailed."""
    if outcome.state is not State.COMPLETED or outcome.exit_code:
        error = f"{outcome.error.code}: {outcome.error.message}" if outcome.error else f"exit code {outcome.exit_code}"
        raise CallFailed(f"{outcome.state}, {error} {outcome.stderr.text[:_SHOWN_CHARACTERS]}".rstrip())
    stdout = outcome.stdout
    if stdout.total_bytes != len(row.stdout) or not (stdout.truncated or stdout.text == row.stdout.decode()):
        raise CallFailed(f"{stdout.total_bytes} bytes of output, {stdout.text[:_SHOWN_CHARACTERS]!r}")
    if len(outcome.artifacts) != row.artifacts:
        raise CallFailed(f"{len(outcome.artifacts)} files came back instead of {row.artifacts}")
    return {name: getattr(outcome.usage, name) for name in PARTS}


async def join(party: Party, first: Row) -> None:
    """Starts both; the outcome of `first` tells the posture. Raises ServiceError where no sandbox can be made here."""
    degraded = tuple(sorted(missing_controllers()))
    settings = Settings(state_dir=party.directory / "in-process", catalogue=(CATALOGUE,), allow_degraded=degraded)
    service = await party.stack.enter_async_context(open_service(settings))
    served = await _serve(party, degraded)
    outcome = await served.ask(first)
    checked(first, outcome)
    party.posture.update(codec.outcome_to_json(outcome)["isolation"])
    party.peers.extend([served, InProcess(service, itertools.count(1))])


async def _serve(party: Party, degraded: tuple[str, ...]) -> Served:
    server = Server(party.troubles)
    party.stack.push_async_callback(server.stop)
    address = f"unix:{party.directory}/executor.sock"
    await server.start(address, party.directory / "served", degraded)
    from executor.client import ExecutorClient  # noqa: PLC0415 - gRPC comes in after everything was started

    return Served(await party.stack.enter_async_context(ExecutorClient(address)))


class Server:
    """`executor serve` in a process of its own."""

    def __init__(self, troubles: list[str]) -> None:
        self._troubles = troubles
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._said: deque[str] = deque(maxlen=20)
        self._ready = asyncio.Event()

    async def start(self, address: str, state_dir: Path, degraded: tuple[str, ...]) -> None:
        """Returns when it is ready. Raises Unavailable with its own words where it never is."""
        words = ["serve", "--listen", address, "--state-dir", str(state_dir), "--catalogue", str(CATALOGUE)]
        words += [word for name in degraded for word in ("--allow-degraded", name)]
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "executor",
            *words,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for us, and we end it
            env={name: value for name, value in os.environ.items() if not name.startswith("EXECUTOR_")},
        )
        self._reading = asyncio.create_task(self._read(self._process))
        try:
            async with asyncio.timeout(READY_SECONDS):
                await self._ready.wait()
        except TimeoutError:
            raise Unavailable(f"the server gave no sign in {READY_SECONDS:g} s: {' '.join(self._said)}") from None
        if self._process.returncode is not None:
            raise Unavailable(f"the server did not start: {' '.join(self._said)}")

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        """To its end, so that a full pipe cannot hold it up."""
        if process.stderr is not None:
            async for line in process.stderr:
                self._said.append(line.decode(errors="replace").strip())
                if "is ready on" in self._said[-1]:
                    self._ready.set()
        await process.wait()
        self._ready.set()

    async def stop(self) -> None:
        """Where it does not end well by itself, that is among the troubles."""
        if self._process is None or self._reading is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
        try:
            async with asyncio.timeout(STOP_SECONDS):
                status = await self._process.wait()
                await self._reading
        except TimeoutError:
            self._process.kill()
            status = await self._process.wait()
        if status:
            self._troubles.append(f"the server ended with status {status}: {' '.join(self._said)}")
