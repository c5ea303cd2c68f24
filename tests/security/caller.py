"""How a probe calls tools: one line for one hostile program, and the outcome as the caller of the service gets it."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from executor.client import ExecutorClient
from executor.model.invocation import InputFile
from executor.model.outcome import Outcome, State

PROGRAMS = Path(__file__).parent / "programs"
MEANS = InputFile(path="hostile.py", content=(PROGRAMS / "hostile.py").read_bytes())
"""Staged beside each program of `probe`."""


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

    async def python(self, code: str, **options: Any) -> Outcome:
        """By the tool `probe`: as `python`, with room for long answers and `hostile.py` beside the program."""
        files = (MEANS, *options.pop("files", ()))
        return await self.call("probe", {"code": code}, files=files, **options)

    async def shell(self, command: str, **options: Any) -> Outcome:
        return await self.call("shell", {"command": command}, **options)

    async def probe(self, code: str, given: object = None, **options: Any) -> Any:
        """The JSON that the program prints. It finds `given` as `hostile.given()`, and must end well."""
        files = (*options.pop("files", ()), InputFile(path="given.json", content=json.dumps(given).encode()))
        outcome = await self.python(code, files=files, **options)
        assert_completed(outcome)
        return json.loads(outcome.stdout.text)


def program(name: str) -> str:
    """The text of one of the longer programs."""
    return (PROGRAMS / f"{name}.py").read_text()


def assert_completed(outcome: Outcome, exit_code: int = 0) -> None:
    said = f"{outcome.error}\n{outcome.stdout.text}\n{outcome.stderr.text}"
    assert (outcome.state, outcome.exit_code) == (State.COMPLETED, exit_code), said
