"""One run in a sandbox, and what it wrote: the setting of most contract tests."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from executor.model.invocation import InputFile
from executor.model.run import Collection, Process, RunReport, SandboxSpec, StreamName
from executor.model.tool import OutputExcess
from executor.sandbox.contract import Backend, Sandbox

WALL_SECONDS = 20.0
"""Of a run that is expected to end by itself, however slow the machine."""


@dataclass(slots=True)
class Heard:
    """Collects what `on_output` is given."""

    pieces: list[tuple[StreamName, bytes]] = field(default_factory=list)
    first: asyncio.Event = field(default_factory=asyncio.Event)
    """Set with the first piece."""

    def __call__(self, stream: StreamName, data: bytes) -> None:
        self.pieces.append((stream, data))
        self.first.set()

    @property
    def stdout(self) -> bytes:
        return self._joined(StreamName.STDOUT)

    @property
    def stderr(self) -> bytes:
        return self._joined(StreamName.STDERR)

    def _joined(self, wanted: StreamName) -> bytes:
        return b"".join(data for stream, data in self.pieces if stream is wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    report: RunReport
    stdout: bytes
    stderr: bytes
    seconds: float
    """From the call of `run` to its return, on our clock."""
    collection: Collection


class Bench:
    def __init__(self, backend: Backend, spec: SandboxSpec) -> None:
        self.backend, self.spec = backend, spec

    @asynccontextmanager
    async def sandbox(self, **limits: Any) -> AsyncIterator[Sandbox]:
        """Open; closed at the end of the block. `limits` replace those of the spec."""
        spec = replace(self.spec, limits=replace(self.spec.limits, **limits))
        sandbox = await self.backend.open(spec)
        try:
            yield sandbox
        finally:
            await sandbox.close()

    async def run(  # noqa: PLR0913 - the fields of a process, by name
        self,
        argv: tuple[str, ...],
        *,
        stdin: bytes = b"",
        files: tuple[InputFile, ...] = (),
        environment: Mapping[str, str] | None = None,
        wall_seconds: float = WALL_SECONDS,
        on_output_excess: OutputExcess = OutputExcess.KILL,
        collect: tuple[str, ...] = (),
        exclude: tuple[str, ...] = (),
        **limits: Any,
    ) -> Result:
        """One command in a sandbox of its own, from open to close."""
        process = Process(
            argv=argv,
            stdin=stdin,
            files=files,
            environment=environment or {},
            wall_seconds=wall_seconds,
            on_output_excess=on_output_excess,
        )
        heard = Heard()
        async with self.sandbox(**limits) as sandbox:
            began = time.monotonic()
            report = await sandbox.run(process, heard)
            seconds = time.monotonic() - began
            heard_bytes = len(heard.stdout), len(heard.stderr)
            collection = await sandbox.collect(collect, exclude) if collect else Collection()
        assert heard_bytes == (len(heard.stdout), len(heard.stderr)), "output was delivered after `run` had returned"
        return Result(report=report, stdout=heard.stdout, stderr=heard.stderr, seconds=seconds, collection=collection)


def process(argv: tuple[str, ...], *, wall_seconds: float = WALL_SECONDS) -> Process:
    return Process(argv=argv, wall_seconds=wall_seconds)
