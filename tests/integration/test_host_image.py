"""The image `host` where the system has no Python: the installation of the server's own interpreter stands in."""

import sys
from pathlib import Path

import pytest

from executor.model.limits import Limits
from executor.model.run import End, Process, SandboxSpec
from executor.sandbox.native import images
from executor.sandbox.native.backend import NativeBackend, NativeSettings
from executor.sandbox.native.pool import PoolSettings
from tests.support.backends import start_or_skip

PREFIX = Path(sys.base_prefix)


@pytest.fixture
def without_a_system_python(monkeypatch):
    real = images.shutil.which
    monkeypatch.setattr(images.shutil, "which", lambda name, path=None: None if path else real(name))


@pytest.mark.skipif(PREFIX.is_relative_to("/usr"), reason="the interpreter of these tests belongs to the system")
async def test_a_python_of_a_version_manager_runs_inside_and_nothing_around_it_is_seen(
    tmp_path, without_a_system_python
):
    backend = NativeBackend(NativeSettings(state_dir=tmp_path, pool=PoolSettings(most=0), launchers=1))
    await start_or_skip(backend)
    heard: list[bytes] = []
    code = f"import os, sys, json; print(json.dumps([sys.prefix, sorted(os.listdir({str(PREFIX.parent)!r}))]))"
    try:
        assert backend.has_program("host", str(PREFIX / "bin" / "python3"))
        sandbox = await backend.open(SandboxSpec(image="host", limits=Limits()))
        process = Process(argv=(str(PREFIX / "bin" / "python3"), "-c", code), wall_seconds=20)
        report = await sandbox.run(process, lambda _stream, data: heard.append(data))
        await sandbox.close()
    finally:
        await backend.stop()
    assert (report.end, report.exit_code) == (End.EXITED, 0), heard
    assert b"".join(heard) == f'["{PREFIX}", ["{PREFIX.name}"]]\n'.encode()


def test_an_interpreter_of_the_system_needs_nothing_beside_it():
    if images.shutil.which("python3", path=images.SEARCH_PATH):
        assert str(PREFIX) not in {layer.target for layer in images.host_image().layers if layer.target != "/usr"}
