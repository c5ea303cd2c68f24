"""`executor demo`: the main job, end to end. Starts a server of its own, calls it as any client would, stops it."""

import asyncio
import contextlib
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from executor.cli import console
from executor.cli.exits import Exit
from executor.cli.interrupts import interrupts
from executor.cli.render import DIM, Line, size, summary
from executor.client import ExecutorClient
from executor.model.errors import ErrorCode, Unavailable
from executor.model.outcome import Outcome, State
from executor.sandbox.native.facilities import missing_controllers

READY_SECONDS = 30.0
STOP_SECONDS = 30.0
SHOWN_CHARACTERS = 400


@dataclass(frozen=True, slots=True)
class Call:
    title: str
    tool: str
    arguments: dict[str, str]
    expected: State | ErrorCode
    limits: dict[str, float] = field(default_factory=dict)


CALLS = (
    Call("Python", "python", {"code": "import platform\nprint('hello from', platform.node())"}, State.COMPLETED),
    Call(
        "Shell", "shell", {"command": "id; df -h /workspace | tail -n 1; ls /proc | grep -c '^[0-9]'"}, State.COMPLETED
    ),
    Call("A program that fails", "python", {"code": "print(1 / 0)"}, State.COMPLETED),
    Call(
        "A program that takes too long", "shell", {"command": "sleep 60"}, ErrorCode.TIMEOUT, limits={"wall_seconds": 1}
    ),
    Call("A program that writes too much", "shell", {"command": "yes"}, ErrorCode.OUTPUT_LIMIT),
    Call("Arguments that are wrong", "python", {"cod": "print(1)"}, ErrorCode.SCHEMA_VIOLATION),
)


async def demo() -> Exit:
    """OK where every outcome was the expected one. Raises Unavailable where the server does not start."""
    calls = asyncio.create_task(_demo())
    with interrupts(calls.cancel):  # the server has a session of its own, and would be left running
        await asyncio.wait((calls,))
    if calls.cancelled():
        console.fault("interrupted")
        return Exit.NOT_OK
    return calls.result()


async def _demo() -> Exit:
    degraded = sorted(missing_controllers())
    if degraded:
        console.note(
            f"This host lets this user limit no {', '.join(degraded)} of a process tree. The demo allows that by name; "
            "a server would refuse to start (see executor doctor)."
        )
    right = True
    async with _server(degraded) as address, ExecutorClient(address) as client:
        for call in CALLS:
            console.tell([Line("\n" + call.title, f"{call.tool} {_brief(call.arguments)}")])
            outcome = await client.execute(call.tool, call.arguments, limits=call.limits, timeout_seconds=60)
            _show(outcome)
            right = right and call.expected in (outcome.state, outcome.error.code if outcome.error else None)
    console.note("\nEach call had a sandbox of its own, and nothing of them is left.")
    return Exit.OK if right else Exit.NOT_OK


@asynccontextmanager
async def _server(degraded: list[str]) -> AsyncIterator[str]:
    """A server in a process of its own, with a state directory that goes with it; gives its address."""
    with tempfile.TemporaryDirectory(prefix="executor-demo-") as directory:
        address = f"unix:{directory}/executor.sock"
        options = ["--listen", address, "--state-dir", str(Path(directory, "state"))]
        options += [word for name in degraded for word in ("--allow-degraded", name)]
        command = (sys.executable, "-m", "executor", "serve", *options)
        process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE, start_new_session=True)
        log: list[str] = []
        try:
            await asyncio.wait_for(_ready(process, log), READY_SECONDS)
            reading = asyncio.ensure_future(_read_on(process, log))
            yield address
            process.send_signal(signal.SIGTERM)
            await asyncio.wait_for(process.wait(), STOP_SECONDS)
            await reading
        except TimeoutError:
            raise Unavailable(f"the server gave no answer in time: {' '.join(log)}") from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def _ready(process: asyncio.subprocess.Process, log: list[str]) -> None:
    """Raises Unavailable with the server's own words where it ends instead."""
    if process.stderr is None:
        return
    async for line in process.stderr:
        log.append(line.decode(errors="replace").strip())
        if "is ready on" in log[-1]:
            return
    raise Unavailable(f"the server did not start: {' '.join(log)}")


async def _read_on(process: asyncio.subprocess.Process, log: list[str]) -> None:
    """So that a full pipe cannot hold the server up."""
    if process.stderr is not None:
        async for line in process.stderr:
            log.append(line.decode(errors="replace").strip())
            del log[:-20]


def _show(outcome: Outcome) -> None:
    for name, stream in (("stdout", outcome.stdout), ("stderr", outcome.stderr)):
        if stream.text:
            console.tell([Line(name, _short(stream.text, stream.total_bytes), DIM)])
    console.tell(line for line in summary(outcome) if line.label not in ("stdout", "stderr"))  # gone with the demo


def _short(text: str, total_bytes: int) -> str:
    text = text.rstrip("\n")
    if len(text) > SHOWN_CHARACTERS:
        text = f"{text[: SHOWN_CHARACTERS // 10]} ... ({size(total_bytes)} in all)"
    return "\n  ".join(["", *text.splitlines()]) if "\n" in text else text


def _brief(arguments: dict[str, str]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in arguments.items())
