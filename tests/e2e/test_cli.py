"""The installed command line in pipes, over the native backend."""

import json
import os
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


@pytest.mark.parametrize(
    ("closed", "words", "status"),
    [
        (">&-", "run shell -a 'command=echo x'", 3),
        (">&-", "run shell -a 'command=echo x' --output json", 3),
        (">&-", "run shell -a command=true", 0),
        (">&-", "run shell -a command=false", 1),
        (">&-", "tools list", 3),
        (">&-", "tools lint", 0),
        (">&-", "tools show shell", 3),
        (">&-", "doctor", 3),
        (">&-", "--version", 3),
        (">&-", "--help", 3),
        (">&-", "run --nope", 2),
        ("2>&-", "run shell -a 'command=echo x'", 0),
        ("2>&-", "run --nope", 2),
        ("<&-", "run shell -a 'command=echo x'", 0),
        ("<&-", "run shell -a command=@-", 2),
        ("<&-", "run shell --args-file -", 2),
        ("<&- >&- 2>&-", "run shell -a 'command=echo x'", 3),
        ("<&- >&- 2>&-", "run shell -a command=true", 0),
    ],
)
def test_a_stream_that_the_shell_has_closed_is_no_traceback(env, closed, words, status):
    ran = subprocess.run(["/bin/bash", "-c", f"{EXECUTOR} {words} {closed}"], capture_output=True, env=env, check=False)
    assert ran.returncode == status
    assert b"Traceback" not in ran.stderr
    assert b"Exception ignored" not in ran.stderr
    if status == 3 and "2>" not in closed:
        assert ran.stderr.endswith(b"executor: output: Bad file descriptor\n")


def test_a_tool_sees_no_difference_where_the_shell_has_closed_every_stream(env, tmp_path):
    inside = "readlink /proc/self/fd/* | sort > fds; cat fds"
    words = f"run shell -a 'command={inside}' --collect fds --save"
    for name, closed in (("open", ""), ("closed", "<&- 2>&-")):
        command = f"{EXECUTOR} {words} {tmp_path / name} {closed}"
        subprocess.run(["/bin/bash", "-c", command], stdout=subprocess.DEVNULL, env=env, check=True)
    seen = [(tmp_path / name / "fds").read_text().splitlines() for name in ("open", "closed")]
    assert len(seen[0]) == len(seen[1])
    assert all("/dev/null" in line or "pipe" in line or "/workspace" in line or "/proc" in line for line in seen[1])


def test_a_state_directory_may_be_deep(env, tmp_path):
    deep = tmp_path / "/".join("a" * 1500)
    words = [EXECUTOR, "run", "shell", "-a", "command=echo deep", "--state-dir", deep]
    ran = subprocess.run(words, capture_output=True, env=env, check=False)
    subprocess.run(["/bin/rm", "-rf", str(tmp_path / "a")], check=True)  # pytest's own removal goes too deep
    assert (ran.returncode, ran.stdout) == (0, b"deep\n")


@pytest.mark.parametrize("words", ["tools lint {}", "tools list --catalogue {}", "serve --catalogue {}"])
def test_a_fifo_among_the_manifests_is_told_and_hangs_nobody(executor, tmp_path, words):
    (tmp_path / "manifests").mkdir()
    os.mkfifo(tmp_path / "manifests/tool.yaml")
    ran = executor(*words.format(tmp_path / "manifests").split())
    assert ran.returncode == (1 if "lint" in words else 3)
    assert b"manifests/tool.yaml:1:1: error" in ran.stdout + ran.stderr
    assert b"it is not a regular file" in ran.stdout + ran.stderr


def test_an_endless_file_is_refused(executor):
    for words in ("run shell -a command=@/dev/zero", "run shell -a command=true --file a=/dev/zero"):
        ran = executor(*words.split())
        assert ran.returncode == 2
        assert b"more than 33554432 bytes" in ran.stderr
    assert executor("tools", "lint", "--config", "/dev/zero").returncode == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_call_with_its_tree(env, number, tmp_path):
    marker = f"6{number:04d}1"
    words = [EXECUTOR, "run", "shell", "-a", f"command=setsid sleep {marker} & wait", "--output", "json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=env) as process:
        eventually(lambda: is_running("sleep", marker), "the tool runs")
        process.send_signal(number)
        out, _ = process.communicate(timeout=30)
    assert (process.returncode, json.loads(out)["state"]) == (1, "CANCELLED")
    assert not is_running("sleep", marker)
    assert not list((tmp_path / "state/outputs").glob("tmp-*"))


def test_a_call_that_nohup_started_outlives_its_terminal(env):
    words = ["/usr/bin/nohup", EXECUTOR, "run", "shell", "-a", "command=sleep 2.0417; echo done"]
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=env) as process:
        eventually(lambda: is_running("sleep", "2.0417"), "the tool runs")
        process.send_signal(signal.SIGHUP)
        out, _ = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, b"done\n")


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
