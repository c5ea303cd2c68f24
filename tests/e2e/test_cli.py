"""The installed command line in pipes, over the native backend."""

import json
import signal
import subprocess

import pytest

from tests.support.cli import EXECUTOR, environment, eventually, is_running


@pytest.fixture
def env(tmp_path):
    return environment(tmp_path / "state")


@pytest.fixture
def executor(env, tmp_path):
    def run(*words, stdin=b""):
        ran = subprocess.run([EXECUTOR, *words], input=stdin, capture_output=True, env=env, cwd=tmp_path, check=False)
        assert b"Traceback" not in ran.stderr
        assert b"\x1b" not in ran.stdout + ran.stderr
        return ran

    return run


def test_the_first_result_needs_no_server(executor):
    ran = executor("run", "python", "-a", "code=print(6 * 7)")
    assert (ran.returncode, ran.stdout) == (0, b"42\n")
    assert b"COMPLETED: python " in ran.stderr


def test_json_has_the_fields_of_the_contract(executor):
    ran = executor("run", "shell", "-a", "command=echo out; echo err >&2; exit 3", "--output", "json", "--call-id", "c")
    outcome = json.loads(ran.stdout)
    assert ran.returncode == 1
    assert (outcome["state"], outcome["exit_code"], outcome["call_id"]) == ("COMPLETED", 3, "c")
    assert outcome["stdout"] == {"text": "out\n", "total_bytes": 4, "truncated": False, "lossy": False}
    assert outcome["stderr"]["text"] == "err\n"
    assert outcome["usage"]["wall_ms"] > 0
    assert outcome["isolation"]["backend"] == "native"
    assert outcome["isolation"]["limits"]["processes"] > 0
    assert "error" not in outcome


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("run", "shell", "-a", "command=true"), 0),
        (("run", "shell", "-a", "command=false"), 1),
        (("run", "shell", "-a", "command=sleep 60", "--timeout", "1"), 1),
        (("run", "shel"), 1),
        (("run", "shell", "--nope"), 2),
        (("run", "shell", "-a", "command"), 2),
        (("run", "shell", "-a", "command=true", "--state-dir", "/dev/null/state"), 3),
        (("run", "shell", "-a", "command=true", "--address", "unix:/nowhere/executor.sock"), 3),
        (("output", "out_000000000000000000000000000"), 3),
        (("tools", "lint"), 0),
        (("tools", "lint", "/nowhere"), 1),
        (("--version",), 0),
        (("--help",), 0),
        ((), 2),
    ],
)
def test_the_exit_status_tells_what_happened(executor, words, status):
    assert executor(*words).returncode == status


def test_code_comes_from_stdin_and_files_go_in_and_out(executor, tmp_path):
    (tmp_path / "in.csv").write_text("1,2\n")
    code = b"open('out.csv', 'w').write(open('in.csv').read() * 2)"
    words = ("-a", "code=@-", "--file", "in.csv", "--collect", "*.csv", "--save", "here", "--output", "json")
    ran = executor("run", "python", *words, stdin=code)
    assert ran.returncode == 0
    assert "out.csv" in {artifact["path"] for artifact in json.loads(ran.stdout)["artifacts"]}
    assert (tmp_path / "here/out.csv").read_text() == "1,2\n1,2\n"


def test_a_large_output_outlives_the_command_behind_its_ref(executor):
    ran = executor("run", "shell", "-a", "command=seq 100000", "--output", "json")
    ref = json.loads(ran.stdout)["stdout"]["ref"]
    assert executor("output", ref, "--lines", "99999:").stdout == b"100000\n"
    page = executor("run", "read_output", "-a", f"ref={ref}", "-a", "start=10", "-a", "end=12")
    assert (page.returncode, page.stdout) == (0, b"11\n12\n")


def test_a_reader_that_goes_away_is_no_traceback(executor, env):
    command = f"{EXECUTOR} run shell -a 'command=seq 3000' | head -n 1"
    ran = subprocess.run(["/bin/bash", "-c", command], capture_output=True, env=env, check=False)
    assert ran.stdout == b"1\n"
    assert b"Traceback" not in ran.stderr
    assert b"BrokenPipe" not in ran.stderr


def test_a_full_disk_behind_stdout_is_one_line_and_gives_3(env):
    with open("/dev/full", "wb") as full:  # noqa: PTH123 - a device
        words = [EXECUTOR, "run", "shell", "-a", "command=echo x"]
        ran = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, env=env, check=False)
    assert ran.returncode == 3
    assert ran.stderr == b"executor: output: No space left on device\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_call_with_its_tree(env, number):
    marker = f"6{number:04d}1"
    words = [EXECUTOR, "run", "shell", "-a", f"command=setsid sleep {marker} & wait", "--output", "json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=env) as process:
        eventually(lambda: is_running("sleep", marker), "the tool runs")
        process.send_signal(number)
        out, _ = process.communicate(timeout=30)
    assert (process.returncode, json.loads(out)["state"]) == (1, "CANCELLED")
    assert not is_running("sleep", marker)


def test_every_built_in_tool_is_listed_with_what_it_lacks(executor):
    listed = json.loads(executor("tools", "list", "--output", "json").stdout)
    assert [tool["name"] for tool in listed] == ["node", "python", "read_output", "shell", "sqlite"]
    assert {"python", "shell"} <= {tool["name"] for tool in listed if "unavailable" not in tool}


def test_the_doctor_says_the_same_with_its_table_and_its_status(executor):
    table = executor("doctor")
    told = executor("doctor", "--output", "json")
    assert json.loads(told.stdout)["enforceable"] == (told.returncode == 0)
    assert told.returncode == table.returncode
    assert table.stdout.splitlines()[0].split(b"\t") == [b"FACILITY", b"STATUS", b"DETAIL", b"WHAT TO DO"]
