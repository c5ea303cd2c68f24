import asyncio
import json
import subprocess
import sys

import pytest

from executor import app
from executor.model.errors import Misconfigured, Unavailable
from executor.model.invocation import Invocation
from executor.model.outcome import State
from executor.sandbox.fake import FakeBackend
from executor.sandbox.fake_programs import PROGRAMS
from executor.settings import Settings


@pytest.fixture
def backend():
    return FakeBackend(programs={"bash": PROGRAMS["true"]})


def settings(tmp_path, **more):
    return Settings(state_dir=tmp_path / "state", listen=(f"unix:{tmp_path}/e.sock",), **more)


class Silent:
    def started(self, tool_version): ...

    def output(self, stream, data): ...


async def test_an_open_service_runs_calls_and_leaves_a_stopped_backend(tmp_path, backend):
    async with app.open_service(settings(tmp_path), lambda _: backend) as service:
        call = Invocation(invocation_id="i", tool="shell", arguments_json='{"command": "x"}')
        outcome = await service.pipeline.execute(call, Silent(), asyncio.Event())
        assert outcome.state is State.COMPLETED
        assert [entry.invocation_id for entry in service.ledger.entries()] == ["i"]
    assert not backend._started


async def test_the_state_directory_is_made_for_us_alone(tmp_path, backend):
    async with app.open_service(settings(tmp_path), lambda _: backend) as service:
        assert service.settings.state_dir.stat().st_mode & 0o777 == 0o700


async def test_a_backend_that_does_not_start_opens_nothing_else(tmp_path):
    backend = FakeBackend(unavailable="nothing can be enforced here")
    with pytest.raises(Unavailable, match="nothing can be enforced here"):
        async with app.open_service(settings(tmp_path), lambda _: backend):
            pytest.fail("it opened")
    assert not (tmp_path / "state/outputs").exists()


async def test_a_state_directory_that_cannot_be_used_is_refused_before_the_backend_starts(tmp_path, backend):
    (tmp_path / "file").touch()
    with pytest.raises(Unavailable, match="choose another with --state-dir"):
        async with app.open_service(Settings(state_dir=tmp_path / "file/x"), lambda _: backend):
            pytest.fail("it opened")
    assert not backend._started


def test_a_state_directory_may_be_deep_and_only_the_last_is_ours_alone(tmp_path):
    deep = tmp_path / "/".join("a" * 1500)
    app.prepare_state_dir(deep)
    assert deep.stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "a").stat().st_mode & 0o077
    subprocess.run(["/bin/rm", "-rf", str(tmp_path / "a")], check=True)  # pytest's own removal goes too deep


@pytest.mark.parametrize("name", ["file", "file/x/y", "n" * 300, "/".join("a" * 3000)])
def test_a_state_directory_that_cannot_be_made_is_refused_by_name(tmp_path, name):
    (tmp_path / "file").touch()
    with pytest.raises(Unavailable, match="cannot be made"):
        app.prepare_state_dir(tmp_path / name)


def test_a_state_directory_that_this_user_may_not_write_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(Unavailable, match="cannot be written by this user"):
        app.prepare_state_dir(tmp_path)


def test_a_facility_that_nobody_can_do_without_is_no_degradation(tmp_path):
    with pytest.raises(Misconfigured, match="'seccomp'; what can be done without is"):
        app.native_backend(settings(tmp_path, allow_degraded=("seccomp",)))


async def test_denying_a_tool_that_does_not_exist_is_refused(tmp_path, backend):
    with pytest.raises(Misconfigured, match="did you mean `shell`"):
        async with app.open_service(settings(tmp_path, deny_tools=("shel",)), lambda _: backend):
            pytest.fail("it opened")


async def test_offers_say_why_a_tool_cannot_run(tmp_path, backend):
    async with app.open_offers(settings(tmp_path), lambda _: backend) as offers:
        reasons = {tool.name: offers.unavailable(tool) for tool in offers.catalogue.tools()}
    assert reasons["shell"] is None
    assert reasons["read_output"] is None
    assert "has no program" in reasons["python"]
    assert not backend._started


async def test_a_server_is_up_while_it_is_listening_and_gone_after(tmp_path, backend):
    async with app.open_service(settings(tmp_path), lambda _: backend) as service:
        async with app.listening(service) as server:
            assert server.addresses == (f"unix:{tmp_path}/e.sock",)
            assert (tmp_path / "e.sock").is_socket()
        assert not (tmp_path / "e.sock").exists()


def test_nothing_of_grpc_is_loaded_before_the_backend_may_start():
    probe = "import json, sys, executor.app, executor.cli.main; print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(subprocess.run([sys.executable, "-c", probe], capture_output=True, check=True).stdout)
    assert not [name for name in loaded if name.split(".")[0] == "grpc"]
