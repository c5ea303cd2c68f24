"""A backend without an operating system beneath it: for tests of what stands on the contract, and for no isolation.

A first-class double: it passes the contract tests that every backend passes. What it plays is in `fake_programs.py`,
in a world that `fake_machine.py` keeps. It must never be offered to a caller of the service.
"""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from executor.model.errors import ErrorCode, ErrorDetail, InvocationError, Unavailable
from executor.model.outcome import Isolation
from executor.model.run import Collection, Process, RunReport, SandboxSpec
from executor.sandbox.contract import OnOutput
from executor.sandbox.fake_collect import pick
from executor.sandbox.fake_machine import TOO_LARGE, WORKSPACE, Disk, Entry, Machine, Program, Refused
from executor.sandbox.fake_programs import BIN, PROGRAMS, starter


class FakeBackend:
    """Sandboxes in memory. `opened_count == closed_count` is the proof that none leaked."""

    def __init__(
        self,
        *,
        name: str = "fake",
        images: Sequence[str] = ("host",),
        programs: Mapping[str, Program] | None = None,
        unavailable: str | None = None,
    ) -> None:
        """`programs` join those of `fake_programs.PROGRAMS`; with `unavailable`, `start` fails and says so."""
        self.name = name
        self.processes: list[Process] = []
        """Every command that was handed over, in order."""
        self.opened_count = 0
        self.closed_count = 0
        self._images = tuple(images)
        self._programs = {**PROGRAMS, **(programs or {})}
        self._unavailable = unavailable
        self._started = False
        self._open: set[FakeSandbox] = set()

    @property
    def open_count(self) -> int:
        """Sandboxes that are open now."""
        return len(self._open)

    async def start(self) -> None:
        if self._unavailable is not None:
            raise Unavailable(self._unavailable)
        self._started = True

    async def stop(self) -> None:
        self._started = False
        for sandbox in tuple(self._open):
            await sandbox.close()

    def images(self) -> Sequence[str]:
        return self._images

    def has_program(self, image: str, program: str) -> bool:
        directory, _, name = program.rpartition("/")
        return image in self._images and name in self._programs and (directory in BIN or program == name)

    def expect(self, calls: Iterable[tuple[SandboxSpec, Sequence[str]]]) -> None:
        """Nothing is worth making ahead."""

    async def open(self, spec: SandboxSpec, process: Process | None = None) -> "FakeSandbox":
        del process
        if not self._started:
            raise _unavailable(f"The {self.name} backend is not started.", "Start it before opening a sandbox.")
        if spec.image not in self._images:
            raise _unavailable(
                f"The {self.name} backend has no image {spec.image!r}.", f"Use one of: {', '.join(self._images)}."
            )
        if spec.network != "none":
            raise _unavailable(
                f"The {self.name} backend has no network {spec.network!r}.",
                "Use the network `none`, or another backend.",
            )
        sandbox = FakeSandbox(self, spec)
        self._open.add(sandbox)
        self.opened_count += 1
        return sandbox

    def start_program(self) -> Program:
        return starter(self._programs)

    def forget(self, sandbox: "FakeSandbox") -> None:
        self._open.remove(sandbox)
        self.closed_count += 1


class FakeSandbox:
    """One disk, one run."""

    def __init__(self, backend: FakeBackend, spec: SandboxSpec) -> None:
        self.isolation = Isolation(
            backend=backend.name,
            image=spec.image,
            image_digest=f"fake:{spec.image}",
            network=spec.network,
            limits=spec.limits,
            degraded=("The fake backend isolates nothing.",),
        )
        self._backend, self._limits = backend, spec.limits
        self._disk = Disk(limits=spec.limits)
        self._machine: Machine | None = None
        self._closed = False
        self._idle = asyncio.Event()
        self._idle.set()

    async def run(self, process: Process, on_output: OnOutput) -> RunReport:
        self._refuse_closed()
        if self._machine is not None:
            raise RuntimeError("this sandbox has had its one run; open another one")
        began = time.monotonic()
        self._machine = Machine(process, self._limits, self._disk, on_output, self._backend.start_program())
        self._stage(process)
        self._backend.processes.append(process)
        self._idle.clear()
        try:
            return await self._run(self._machine, process, began)
        finally:
            self._idle.set()

    async def collect(self, globs: Sequence[str], exclude: Sequence[str]) -> Collection:
        self._refuse_closed()
        if not self._idle.is_set():
            raise RuntimeError("collect while the command runs; wait for the end of `run`")
        return pick(self._disk.below(WORKSPACE), globs, exclude, self._limits)

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._backend.forget(self)
            if self._machine is not None:
                self._machine.abort(_closed())
        await self._idle.wait()

    async def _run(self, machine: Machine, process: Process, began: float) -> RunReport:
        handed_over = time.monotonic()
        main = machine.spawn(process.argv, process.stdin)
        report = await machine.finish(main, process.wall_seconds)
        usage = replace(
            report.usage, setup_ms=1000 * (handed_over - began), wall_ms=1000 * (time.monotonic() - handed_over)
        )
        return replace(
            report,
            usage=usage,
            disk_full=tuple(sorted(self._disk.full)),
            output_dropped=machine.meter.dropped,
        )

    def _stage(self, process: Process) -> None:
        for file in process.files:
            try:
                self._disk.put(f"{WORKSPACE}/{file.path}", Entry(content=file.content, executable=file.executable))
            except Refused as reason:
                raise _not_staged(file.path, str(reason)) from None

    def _refuse_closed(self) -> None:
        if self._closed:
            raise _closed()


def _unavailable(message: str, suggestion: str) -> InvocationError:
    return InvocationError(
        ErrorDetail(code=ErrorCode.SANDBOX_UNAVAILABLE, message=message, suggestion=suggestion, retryable=True)
    )


def _not_staged(path: str, reason: str) -> InvocationError:
    return InvocationError(
        ErrorDetail(
            code=ErrorCode.PAYLOAD_TOO_LARGE if reason in TOO_LARGE else ErrorCode.SCHEMA_VIOLATION,
            message=f"The input file {path!r} could not be written to /workspace: {reason}.",
            suggestion="Give fewer or smaller files, with paths that do not clash.",
        )
    )


def _closed() -> InvocationError:
    return _unavailable("The fake sandbox was closed.", "Open another one.")
