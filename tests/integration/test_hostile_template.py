"""A template is a program of its image and may do as it likes: calls go on, plainly, and nothing of it is left."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from executor.model.invocation import InputFile
from executor.model.limits import Limits
from executor.model.run import End, Process, SandboxSpec
from executor.sandbox.native import backend as native
from executor.sandbox.native import images
from executor.sandbox.native.backend import NativeBackend, NativeSettings
from executor.sandbox.native.plan import TemplatePlan
from executor.sandbox.native.pool import PoolSettings
from tests.support.backends import start_or_skip
from tests.support.census import census, leaked
from tests.support.hosts import need_every_limit

PYTHON = Process(
    argv=("python3", "main.py"),
    wall_seconds=20.0,
    files=(InputFile(path="main.py", content=b"print(6 * 7)"),),
)
SPEC = SandboxSpec(image="host", limits=Limits())
BIRTH_SECONDS = 1.0
WAYS = {
    "ends at once": "exit 0",
    "says a word without a number": "printf born >&3",
    "says a number that is none": "printf 'born \u00b2 x' >&3",
    "answers what nobody asked": "printf 'born 1 x' >&3",
    "is ready twice": "printf ready >&3; printf ready >&3",
    "is ready, and floods": "printf ready >&3; while :; do printf 'failed 1 no' >&3 || exit; done",
    "is ready, and never answers": "printf ready >&3",
    "is ready, and answers with nothing to hold": (
        'printf ready >&3; for i in 1 2 3 4 5 6 7 8; do printf "born $i x" >&3; done'
    ),
    "is at fault, and says so at length": "printf 'fault %0100000d' 7 >&3",
}


@pytest.fixture(params=WAYS.values(), ids=list(WAYS))
async def backend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> AsyncIterator[NativeBackend]:
    """Its host image has a template whose interpreter is bash, and a BASH_ENV that is run before any script."""
    need_every_limit()
    host = images.host_image()
    hostile = replace(
        host,
        templates=(TemplatePlan(name="hostile", interpreter="/usr/bin/bash"),),
        environment={**host.environment, "BASH_ENV": f"$({request.param}; exec sleep 1000)"},
    )
    monkeypatch.setattr(images, "host_image", lambda: hostile)
    monkeypatch.setattr(images, "interpreters", lambda _image: {"python3": "same", "/usr/bin/bash": "same"})
    monkeypatch.setattr(native, "BIRTH_SECONDS", BIRTH_SECONDS)
    before = census(str(tmp_path))
    backend = NativeBackend(NativeSettings(state_dir=tmp_path / "state", pool=PoolSettings(most=0), launchers=1))
    await start_or_skip(backend)
    try:
        yield backend
    finally:
        await backend.stop()
    assert leaked(before) == {}


async def ran(backend: NativeBackend) -> tuple[End, bytes, str]:
    sandbox = await backend.open(SPEC, PYTHON)
    heard = bytearray()
    report = await sandbox.run(PYTHON, lambda _stream, data: heard.extend(data))
    await sandbox.close()
    return report.end, bytes(heard), sandbox.isolation.prepared


async def test_a_template_that_misbehaves_costs_its_image_the_template_and_nothing_else(backend: NativeBackend):
    for _ in range(3):
        assert await ran(backend) == (End.EXITED, b"42\n", "on_demand")
