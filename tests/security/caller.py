"""How a probe calls tools: one line for one hostile program, and the outcome as the caller of the service gets it."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

from executor.client import ExecutorClient
from executor.model.events import Ended, Output
from executor.model.invocation import InputFile
from executor.model.outcome import Outcome, State

PROGRAMS = Path(__file__).parent / "programs"
MEANS = InputFile(path="hostile.py", content=(PROGRAMS / "hostile.py").read_bytes())
STARTS_SECONDS = 10.0


class Caller:
    def __init__(self, client: ExecutorClient) -> None:
        self.client = client

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        files: Sequence[InputFile] = (),
        collect: Sequence[str] = (),
        limits: Mapping[str, float] | None = None,
    ) -> Outcome:
        return await self.client.execute(tool, arguments, files=files, collect=collect, limits=limits or {})

    async def shell(self, command: str, **options: Any) -> Outcome:
        return await self.call("shell", {"command": command}, **options)

    async def python(self, code: str, given: object = None, *, tool: str = "probe", **options: Any) -> Outcome:
        """By the tool `probe`: as `python`, with room for long answers. It finds `given` as `hostile.given()`."""
        files = (*staged(given), *options.pop("files", ()))
        return await self.call(tool, {"code": code}, files=files, **options)

    async def probe(self, code: str, given: object = None, **options: Any) -> Any:
        """The JSON that the program prints. It must end well."""
        outcome = await self.python(code, given, **options)
        assert_completed(outcome)
        return json.loads(outcome.stdout.text)

    @asynccontextmanager
    async def running(
        self, code: str, word: bytes, given: object = None, **options: Any
    ) -> "AsyncIterator[asyncio.Task[Outcome]]":
        """While the block runs, the program does, and has printed `word`; the task gives its outcome. At the end of the
        block it is cancelled where it still runs.
        """
        printed = asyncio.Event()
        task = asyncio.create_task(self._watched(code, word, given, options, printed))
        waiter = asyncio.create_task(printed.wait())
        try:
            await asyncio.wait((task, waiter), timeout=STARTS_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            assert printed.is_set(), f"the program did not print {word!r}: {task}"
            yield task
        finally:
            for one in (task, waiter):
                one.cancel()
            await asyncio.wait((task, waiter))

    async def _watched(
        self, code: str, word: bytes, given: object, options: dict[str, Any], printed: asyncio.Event
    ) -> Outcome:
        seen = b""
        events = self.client.execute_stream("probe", {"code": code}, files=staged(given), **options)
        async with aclosing(events):
            async for event in events:
                if isinstance(event, Output):
                    seen += event.data
                    if word in seen:
                        printed.set()
                elif isinstance(event, Ended):
                    return event.outcome
        raise AssertionError("the stream ended without an outcome")


def staged(given: object) -> tuple[InputFile, ...]:
    """What lies beside each hostile Python program."""
    return (MEANS, InputFile(path="given.json", content=json.dumps(given).encode()))


def program(name: str) -> str:
    """The text of one of the longer programs."""
    return (PROGRAMS / f"{name}.py").read_text()


def assert_completed(outcome: Outcome, exit_code: int = 0) -> None:
    said = f"{outcome.error}\n{outcome.stdout.text}\n{outcome.stderr.text}"
    assert (outcome.state, outcome.exit_code) == (State.COMPLETED, exit_code), said


def prepared(outcome: Outcome) -> str:
    """How its sandbox was made."""
    assert outcome.isolation is not None, outcome.error
    return outcome.isolation.prepared


async def until(holds: Callable[[], bool], deadline_s: float) -> None:
    async with asyncio.timeout(deadline_s):
        while not holds():  # noqa: ASYNC110 - the world outside tells nobody when it changes
            await asyncio.sleep(0.01)
