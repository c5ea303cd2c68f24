"""How the tests make each backend. The only place of the tests that knows a constructor."""

import os
from pathlib import Path

import pytest

from executor.model.errors import Unavailable
from executor.sandbox.contract import Backend
from executor.sandbox.fake import FakeBackend


def make_fake_backend() -> Backend:
    return FakeBackend()


def make_native_backend(state_dir: Path) -> Backend:
    from executor.sandbox.native.backend import NativeBackend, NativeSettings  # noqa: PLC0415 - Linux alone has it
    from executor.sandbox.native.pool import PoolSettings  # noqa: PLC0415

    return NativeBackend(NativeSettings(state_dir=state_dir, pool=PoolSettings(most=0), launchers=1))


async def start_or_skip(backend: Backend) -> None:
    """A host that lacks a facility may skip, and says which; where CI is set nothing may be skipped."""
    try:
        await backend.start()
    except Unavailable as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"this host cannot run the {backend.name} backend: {missing}")
