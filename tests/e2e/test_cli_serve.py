"""`executor serve` as an operator starts and stops it."""

import asyncio
import fcntl
import json
import signal
import stat
import subprocess
from contextlib import contextmanager

import psutil
import pytest

from executor.client import ExecutorClient
from executor.model.errors import ErrorCode
from tests.support.cli import EXECUTOR, environment, eventually, is_running


@pytest.fixture
def env(tmp_path):
    return environment(tmp_path / "state")


@contextmanager
def serving(env, *words):
    """The process, and the addresses of its ready line."""
    process = subprocess.Popen([EXECUTOR, "serve", *words], stderr=subprocess.PIPE, text=True, env=env)
    try:
        ready = next(line for line in process.stderr if line.startswith("executor is ready on "))
        yield process, ready.removeprefix("executor is ready on ").strip().split(", ")
    finally:
        process.kill()
        process.communicate()


def run(env, address, *words):
    command = [EXECUTOR, "run", "--address", address, "--output", "json", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)


def ended(process):
    out, _ = process.communicate(timeout=60)
    return process.returncode, json.loads(out)


def test_it_listens_on_a_socket_that_is_ours_alone_and_on_tcp_where_asked(env, tmp_path):
    path = tmp_path / "e.sock"
    with serving(env, "--listen", f"unix:{path}", "--listen", "127.0.0.1:0") as (_, addresses):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        for address in addresses:
            status, outcome = ended(run(env, address, "shell", "-a", "command=echo served"))
            assert (status, outcome["stdout"]["text"]) == (0, "served\n")


def test_its_socket_is_in_the_runtime_directory_by_default(env, tmp_path):
    with serving(env) as (_, addresses):
        assert addresses == [f"unix:{tmp_path}/executor/executor.sock"]


def test_tools_and_outputs_are_read_from_it(env):
    with serving(env) as (_, (address,)):
        _, outcome = ended(run(env, address, "shell", "-a", "command=seq 100000"))
        words = [EXECUTOR, "output", outcome["stdout"]["ref"], "--address", address, "--range", "0:4"]
        assert subprocess.run(words, capture_output=True, env=env, check=True).stdout == b"1\n2\n"
        words = [EXECUTOR, "tools", "list", "--address", address]
        assert b"\nshell\t" in subprocess.run(words, capture_output=True, env=env, check=True).stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_lets_a_running_call_end_and_then_exits_with_0(env, number, tmp_path):
    with serving(env) as (server, (address,)):
        call = run(env, address, "shell", "-a", "command=sleep 2.0731; echo done")
        eventually(lambda: is_running("sleep", "2.0731"), "the tool runs")
        server.send_signal(number)
        status, outcome = ended(call)
        assert (status, outcome["stdout"]["text"]) == (0, "done\n")
        assert server.wait(30) == 0
    assert not list((tmp_path / "state/outputs").glob("tmp-*"))


def test_a_reader_of_its_log_who_stops_reading_holds_up_no_call_and_no_drain(env):
    with serving(env) as (server, (address,)):
        fcntl.fcntl(server.stderr, fcntl.F_SETPIPE_SZ, 4096)
        for _ in range(2):  # the log of a hundred calls is more than the pipe holds
            asyncio.run(refused_calls(address, 60))
        call = run(env, address, "shell", "-a", "command=sleep 1.0917; echo done")
        eventually(lambda: is_running("sleep", "1.0917"), "the tool runs")
        server.send_signal(signal.SIGTERM)
        status, outcome = ended(call)
        assert (status, outcome["stdout"]["text"]) == (0, "done\n")
        assert server.wait(20) == 0


async def refused_calls(address, count):
    async with ExecutorClient(address) as client:
        outcomes = [await client.execute("nothing", {}, timeout_seconds=10) for _ in range(count)]
    assert {outcome.error.code for outcome in outcomes} == {ErrorCode.UNKNOWN_TOOL}


def test_a_second_signal_cancels_what_runs_at_once(env):
    with serving(env) as (server, (address,)):
        call = run(env, address, "shell", "-a", "command=sleep 86731")
        eventually(lambda: is_running("sleep", "86731"), "the tool runs")
        server.send_signal(signal.SIGTERM)
        assert next(server.stderr, "").startswith(("executor is draining", "{"))
        server.send_signal(signal.SIGINT)
        status, outcome = ended(call)
        assert (status, outcome["state"]) == (1, "CANCELLED")
        assert server.wait(30) == 0
        assert not is_running("sleep", "86731")


def test_a_client_that_is_interrupted_gets_its_outcome_and_leaves_nothing(env):
    with serving(env) as (_, (address,)):
        call = run(env, address, "shell", "-a", "command=sleep 86732")
        eventually(lambda: is_running("sleep", "86732"), "the tool runs")
        call.send_signal(signal.SIGINT)
        status, outcome = ended(call)
        assert (status, outcome["state"]) == (1, "CANCELLED")
        assert not is_running("sleep", "86732")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--listen", "0.0.0.0:50051"), "loopback"),
        (("--listen", "nonsense"), "nonsense"),
        (("--state-dir", "/dev/null/state"), "the state directory /dev/null/state"),
        (("--config", "/nowhere.yaml"), "/nowhere.yaml cannot be read"),
        (("--allow-degraded", "everything"), "'everything'"),
    ],
)
def test_what_cannot_be_served_gives_3_and_the_reason(env, words, told):
    ran = subprocess.run([EXECUTOR, "serve", *words], capture_output=True, text=True, env=env, check=False, timeout=60)
    assert ran.returncode == 3
    assert told in ran.stderr
    assert "Traceback" not in ran.stderr


def test_an_address_that_is_taken_gives_3(env):
    with serving(env) as (_, (address,)):
        words = [EXECUTOR, "serve", "--listen", address]
        ran = subprocess.run(words, capture_output=True, text=True, env=env, check=False, timeout=60)
    assert ran.returncode == 3
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_demo_that_is_ended_takes_its_server_with_it(env, number):
    with subprocess.Popen([EXECUTOR, "demo"], stderr=subprocess.PIPE, text=True, env=env) as demo:
        assert next(line for line in demo.stderr if line.startswith("Python"))  # the server is ready
        started = psutil.Process(demo.pid).children(recursive=True)
        demo.send_signal(number)
        told = demo.stderr.read()
    assert demo.returncode == 1
    assert told.endswith("executor: interrupted\n")
    assert started
    assert psutil.wait_procs(started, timeout=30)[1] == []
