"""Every test of this folder runs once per backend, and each proves that it left nothing behind."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from executor.model.limits import Limits
from executor.model.run import SandboxSpec
from executor.sandbox.contract import Backend
from tests.support.backends import make_fake_backend, make_native_backend, start_or_skip
from tests.support.bench import Bench
from tests.support.census import census, settled
from tests.support.programs import FakePrograms, Programs, UnixPrograms


@pytest.fixture(params=["fake", "native"])
def backend_name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def programs(backend_name: str) -> Programs:
    return FakePrograms() if backend_name == "fake" else UnixPrograms()


@pytest.fixture
async def backend(backend_name: str, tmp_path: Path) -> AsyncIterator[Backend]:
    before, tasks_before = census(str(tmp_path)), other_tasks()
    backend = make_fake_backend() if backend_name == "fake" else make_native_backend(tmp_path / "state")
    await start_or_skip(backend)
    try:
        yield backend
    finally:
        await backend.stop()
    assert other_tasks() == tasks_before
    left = await asyncio.to_thread(settled, before)
    assert left == {}, f"left behind by the {backend.name} backend: {left}"


def other_tasks() -> set[asyncio.Task[Any]]:
    return asyncio.all_tasks() - {asyncio.current_task()}


@pytest.fixture
def spec() -> SandboxSpec:
    return SandboxSpec(image="host", limits=Limits())


@pytest.fixture
def bench(backend: Backend, spec: SandboxSpec) -> Bench:
    return Bench(backend, spec)
