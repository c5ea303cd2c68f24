"""Our own service as a peer: a server of its own, called over gRPC."""

import asyncio
import contextlib
import os
import sys
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING

from executor import codec
from executor.bench.names import OURS
from executor.bench.peer import CALL_SECONDS, CallFailed, Party
from executor.bench.rows import Row
from executor.model.errors import ServiceError, Unavailable
from executor.model.outcome import Outcome, State
from executor.model.run import Usage
from executor.sandbox.native.facilities import missing_controllers

if TYPE_CHECKING:
    from executor.client import ExecutorClient

CATALOGUE = Path(__file__).with_name("catalogue")
READY_SECONDS = 60.0
STOP_SECONDS = 40.0
SETTLE_SECONDS = 10.0
_LOOK_SECONDS = 0.05
_SHOWN_CHARACTERS = 200
_NO_PART = ("cpu_ms",)
_PARTS = tuple(one.name for one in fields(Usage) if one.name.endswith("_ms") and one.name not in _NO_PART)
"""Whatever times of a call the server tells."""


@dataclass(frozen=True, slots=True)
class Served:
    """At the client, over gRPC."""

    client: "ExecutorClient"
    name: str = OURS
    every: int = 1
    most_in_flight: int = 1024
    processes: frozenset[int] = field(default_factory=frozenset)

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
    told = ((name, getattr(outcome.usage, name)) for name in _PARTS)
    return {name: value for name, value in told if value is not None}


async def join(party: Party, rows: Iterable[Row], images_dir: Path) -> int:
    """Starts it, waits until its pool serves each of `rows`, and gives its process id. What the outcome of the first
    row says of its sandbox is the posture, with how the sandbox of each row was made.

    Raises ServiceError where no sandbox can be made here, CallFailed where a row does not do what it says.
    """
    server = Server(party.troubles)
    party.stack.push_async_callback(server.stop)
    address = f"unix:{party.directory}/executor.sock"
    degraded = tuple(sorted(missing_controllers()))
    pid = await server.start(address, party.directory / "served", images_dir, degraded)
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"  # read when gRPC is loaded; some peers are libraries that fork
    from executor.client import ExecutorClient  # noqa: PLC0415 - see above

    served = Served(await party.stack.enter_async_context(ExecutorClient(address)))
    outcomes = await _settled(served, rows)
    isolation = {name: codec.outcome_to_json(outcome)["isolation"] for name, outcome in outcomes.items()}
    party.posture.update(next(iter(isolation.values())))
    party.posture["prepared"] = {name: one.get("prepared") for name, one in isolation.items()}
    party.peers.append(served)
    return pid


async def _settled(served: Served, rows: Iterable[Row]) -> dict[str, Outcome]:
    """The last outcome of each row: of a sandbox made as it is to be, or of what there was when the time was up."""
    loop = asyncio.get_running_loop()
    until = loop.time() + SETTLE_SECONDS
    outcomes: dict[str, Outcome] = {}
    for row in rows:
        while True:
            outcome = outcomes[row.name] = await served.ask(row)
            checked(row, outcome)
            prepared = outcome.isolation.prepared if outcome.isolation else ""
            if prepared.startswith(row.prepared) or loop.time() > until:
                break
            await asyncio.sleep(_LOOK_SECONDS)
    return outcomes


class Server:
    """`executor serve` in a process of its own."""

    def __init__(self, troubles: list[str]) -> None:
        self._troubles = troubles
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._said: deque[str] = deque(maxlen=20)
        self._ready = asyncio.Event()

    async def start(self, address: str, state_dir: Path, images_dir: Path, degraded: tuple[str, ...]) -> int:
        """Returns its process id when it is ready. Raises Unavailable with its own words where it never is."""
        words = ["serve", "--listen", address, "--state-dir", str(state_dir), "--catalogue", str(CATALOGUE)]
        words += [word for name in degraded for word in ("--allow-degraded", name)]
        kept = {name: value for name, value in os.environ.items() if not name.startswith("EXECUTOR_")}
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "executor",
            *words,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for us, and we end it
            env={**kept, "EXECUTOR_IMAGES_DIR": str(images_dir)},
        )
        self._reading = asyncio.create_task(self._read(self._process))
        try:
            async with asyncio.timeout(READY_SECONDS):
                await self._ready.wait()
        except TimeoutError:
            raise Unavailable(f"the server gave no sign in {READY_SECONDS:g} s: {' '.join(self._said)}") from None
        if self._process.returncode is not None:
            raise Unavailable(f"the server did not start: {' '.join(self._said)}")
        return self._process.pid

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
