"""How the tests make each backend. The only place of the tests that knows a constructor."""

import asyncio
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from executor.model.errors import Unavailable
from executor.model.invocation import InputFile
from executor.model.outcome import Isolation
from executor.model.run import Collection, Process, RunReport, SandboxSpec
from executor.sandbox.contract import Backend, OnOutput, Sandbox
from executor.sandbox.fake import FakeBackend
from executor.sandbox.native.backend import NativeBackend, NativeSettings
from executor.sandbox.native.pool import PoolSettings
from tests.support.bench import process

TEMPLATE_SECONDS = 20.0
"""For a template to be ready, or a first sandbox to be parked."""
MAIN = InputFile(
    path="main.py",
    content=b"import os, sys\nos.remove('main.py')\nos.execvp(sys.argv[1], sys.argv[1:])\n",
    internal=True,
)
"""Leaves nothing of itself: neither its file nor its interpreter."""
UNKNOWN = process(("true",))
"""Of a sandbox that was opened without saying what it is for."""


def make_fake_backend() -> Backend:
    return FakeBackend()


def make_native_backend(state_dir: Path) -> Backend:
    """Each sandbox is made on demand and starts its program itself."""
    settings = NativeSettings(state_dir=state_dir, pool=PoolSettings(most=0), launchers=1, templates=False)
    return NativeBackend(settings)


class PooledBackend(NativeBackend):
    """With a pool as by default, and the sandboxes of one spec parked when it has started."""

    def __init__(self, state_dir: Path, spec: SandboxSpec) -> None:
        super().__init__(NativeSettings(state_dir=state_dir, templates=False))
        self._spec = spec

    async def start(self) -> None:
        await super().start()
        self.expect([(self._spec, ("true",))])
        async with asyncio.timeout(TEMPLATE_SECONDS):
            while await self._prepared() != "pooled":
                pass

    async def _prepared(self) -> str:
        sandbox = await self.open(self._spec)
        await sandbox.close()
        return sandbox.isolation.prepared


class InterpretedBackend:
    """Runs each command from within a Python program, in a copy of the host image's template."""

    def __init__(self, state_dir: Path) -> None:
        self._native = NativeBackend(
            NativeSettings(state_dir=state_dir, pool=PoolSettings(most=0), launchers=1, templates=True)
        )
        self.name = self._native.name

    async def start(self) -> None:
        await self._native.start()
        try:
            await self._await_template()
        except BaseException:  # also when cancelled: nobody calls stop for what has not started
            await self._native.stop()
            raise

    async def _await_template(self) -> None:
        async with asyncio.timeout(TEMPLATE_SECONDS):
            await self._native.templates_are_told()
        if why := self._native.templates().get("host/python", "the host has no such template"):
            raise Unavailable(f"no interpreter can be forked: {why}")

    async def stop(self) -> None:
        await self._native.stop()

    def images(self) -> Sequence[str]:
        return self._native.images()

    def has_program(self, image: str, program: str) -> bool:
        return self._native.has_program(image, program)

    def expect(self, calls: Iterable[tuple[SandboxSpec, Sequence[str]]]) -> None:
        self._native.expect((spec, interpreted(process(tuple(argv))).argv) for spec, argv in calls)

    async def open(self, spec: SandboxSpec, process: Process | None = None) -> Sandbox:
        sandbox = await self._native.open(spec, interpreted(process or UNKNOWN))
        assert sandbox.isolation.prepared == "on_demand+template:python"
        return _Interpreted(sandbox)


class _Interpreted:
    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    @property
    def isolation(self) -> Isolation:
        return self._sandbox.isolation

    async def run(self, process: Process, on_output: OnOutput) -> RunReport:
        return await self._sandbox.run(interpreted(process), on_output)

    async def collect(self, globs: Sequence[str], exclude: Sequence[str]) -> Collection:
        return await self._sandbox.collect(globs, exclude)

    async def close(self) -> None:
        await self._sandbox.close()


def interpreted(process: Process) -> Process:
    """The same command, as what a Python program turns into."""
    return replace(process, argv=("python3", MAIN.path, *process.argv), files=(*process.files, MAIN))


async def start_or_skip(backend: Backend) -> None:
    """A host that lacks a facility may skip, and says which; where CI is set nothing may be skipped."""
    try:
        await backend.start()
    except Unavailable as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"this host cannot run the {backend.name} backend: {missing}")
