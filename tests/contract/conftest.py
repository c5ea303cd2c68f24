"""Every test of this folder runs once per backend, and each proves that it left nothing behind. The native one is
there in three ways: each sandbox made on demand, taken from a pool, and born of a template.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from executor.model.limits import Limits
from executor.model.run import SandboxSpec
from executor.sandbox.contract import Backend
from tests.support.backends import (
    InterpretedBackend,
    PooledBackend,
    make_fake_backend,
    make_native_backend,
    start_or_skip,
)
from tests.support.bench import Bench
from tests.support.census import census, leaked
from tests.support.programs import FakePrograms, Programs, UnixPrograms

BACKENDS = ("fake", "native", "native-pooled", "native-template")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "not_of(*backends): what the test looks at is another thing with these backends")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "backend_name" in metafunc.fixturenames:
        left_out = {name for mark in metafunc.definition.iter_markers("not_of") for name in mark.args}
        metafunc.parametrize("backend_name", [name for name in BACKENDS if name not in left_out])


@pytest.fixture
def programs(backend_name: str) -> Programs:
    return FakePrograms() if backend_name == "fake" else UnixPrograms()


def make_backend(name: str, state_dir: Path, spec: SandboxSpec) -> Backend:
    match name:
        case "fake":
            return make_fake_backend()
        case "native":
            return make_native_backend(state_dir)
        case "native-pooled":
            return PooledBackend(state_dir, spec)
        case _:
            return InterpretedBackend(state_dir)


@pytest.fixture
async def backend(backend_name: str, spec: SandboxSpec, tmp_path: Path) -> AsyncIterator[Backend]:
    before, tasks_before = census(str(tmp_path)), other_tasks()
    backend = make_backend(backend_name, tmp_path / "state", spec)
    await start_or_skip(backend)
    try:
        yield backend
    finally:
        await backend.stop()
    assert other_tasks() == tasks_before
    left = await asyncio.to_thread(leaked, before)
    assert left == {}, f"left behind by the {backend.name} backend: {left}"


def other_tasks() -> set[asyncio.Task[Any]]:
    return asyncio.all_tasks() - {asyncio.current_task()}


@pytest.fixture
def spec() -> SandboxSpec:
    return SandboxSpec(image="host", limits=Limits())


@pytest.fixture
def bench(backend: Backend, spec: SandboxSpec) -> Bench:
    return Bench(backend, spec)
