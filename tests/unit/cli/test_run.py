import io
import json
import os
import signal
import sys
import threading
import time

import pytest

from executor.sandbox.fake import FakeBackend


def outcome(ran):
    return json.loads(ran.out)


def test_stdout_of_the_tool_goes_to_stdout_and_the_summary_to_stderr(executor):
    ran = executor("run", "echo", "-a", "text=hello")
    assert (ran.status, ran.out) == (0, "-- hello\n")
    assert "COMPLETED: echo 1.0.0, exit code 0" in ran.err


def test_json_is_the_outcome_and_nothing_else(executor):
    ran = executor("run", "echo", "-a", "text=hello", "--output", "json", "--call-id", "c1", "--trace-id", "A" * 32)
    assert (ran.status, ran.err) == (0, "")
    assert outcome(ran)["state"] == "COMPLETED"
    assert (outcome(ran)["call_id"], outcome(ran)["trace_id"]) == ("c1", "a" * 32)
    assert "error" not in outcome(ran)


def test_a_tool_that_exits_with_3_is_an_outcome_and_gives_1(executor):
    ran = executor("run", "quit", "--output", "json")
    assert (ran.status, outcome(ran)["exit_code"], outcome(ran)["state"]) == (1, 3, "COMPLETED")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("ecko",), "UNKNOWN_TOOL"),
        (("echo", "--version", "9.9.9"), "UNKNOWN_VERSION"),
        (("echo", "--args", "{"), "INVALID_JSON"),
        (("echo", "--args", '{"txt": "x"}'), "SCHEMA_VIOLATION"),
        (("fault",), "SANDBOX_UNAVAILABLE"),
    ],
)
def test_a_call_that_fails_is_an_outcome_and_gives_1(executor, words, code):
    ran = executor("run", *words, "--output", "json")
    assert (ran.status, outcome(ran)["error"]["code"]) == (1, code)


def test_a_failure_is_told_with_what_to_do_about_it(executor):
    ran = executor("run", "ecko")
    assert "FAILED: ecko, INVALID_ARGUMENT/UNKNOWN_TOOL" in ran.err
    assert "did you mean `echo`?" in ran.err
    assert "suggestion: " in ran.err


def test_a_value_is_typed_by_the_schema_of_the_tool(executor, backend):
    assert executor("run", "echo", "-a", "text=1", "-a", "count=2").status == 0
    assert backend.processes[-1].argv == ("echo", "--", "1", "2")


def test_a_value_can_come_from_a_file_or_from_stdin_or_begin_with_an_at(executor, backend, tmp_path, monkeypatch):
    (tmp_path / "value").write_text("from a file")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"from stdin")))
    for word, text in (("@value", "from a file"), ("@-", "from stdin"), ("@@home", "@home")):
        assert executor("run", "echo", "-a", f"text={word}").status == 0
        assert backend.processes[-1].argv[2] == text


def test_all_arguments_can_come_as_json_from_a_file(executor, backend, tmp_path):
    (tmp_path / "args.json").write_text('{"text": "x", "count": 7}')
    assert executor("run", "echo", "--args-file", "args.json").status == 0
    assert backend.processes[-1].argv == ("echo", "--", "x", "7")


def test_a_file_goes_in(executor, tmp_path):
    (tmp_path / "local").write_text("content")
    assert executor("run", "input", "--file", "in.txt=local").out == "content"


def test_what_was_made_comes_back_and_is_saved_without_overwriting(executor, tmp_path):
    words = ("run", "save", "--collect", "*.txt", "--save", "here")
    ran = executor(*words)
    assert ran.status == 0
    assert "artifact: made.txt  4 bytes  text/plain  out_" in ran.err
    assert (tmp_path / "here/made.txt").read_text() == "made"
    again = executor(*words)
    assert again.status == 3
    assert "made.txt' cannot be saved in here: File exists" in again.err


def test_a_link_in_the_directory_leads_nowhere(executor, tmp_path):
    (tmp_path / "here").mkdir()
    (tmp_path / "here/made.txt").symlink_to(tmp_path / "elsewhere")
    assert executor("run", "save", "--collect", "*", "--save", "here").status == 3
    assert not (tmp_path / "elsewhere").exists()


def test_a_limit_may_be_lowered(executor, backend):
    ran = executor("run", "echo", "-a", "text=x", "--limit", "processes=3", "--output", "json")
    assert outcome(ran)["isolation"]["limits"]["processes"] == 3


def test_the_timeout_ends_the_call(executor):
    ran = executor("run", "sleep", "--timeout", "0.3", "--output", "json")
    assert (ran.status, outcome(ran)["error"]["code"]) == (1, "TIMEOUT")


def test_what_was_cut_can_be_read_by_its_ref(executor):
    ran = executor("run", "count", "--output", "json")
    stream = outcome(ran)["stdout"]
    assert stream["truncated"]
    assert executor("output", stream["ref"], "--lines", "19998:").out == "o19999\no20000\n"
    assert executor("output", stream["ref"], "--range", "0:2").out == "o1"
    assert executor("output", stream["ref"], "--grep", "^o1999[89]$").out == "19997:o19998\n19998:o19999\n"
    assert len(executor("output", stream["ref"]).out) == stream["total_bytes"]


def test_a_signal_cancels_the_call_which_still_answers(executor, backend):
    def interrupt():
        limit = time.monotonic() + 10
        while backend.opened_count == 0 and time.monotonic() < limit:
            threading.Event().wait(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    ran = executor("run", "sleep", "--output", "json")
    thread.join()
    assert (ran.status, outcome(ran)["state"]) == (1, "CANCELLED")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "Missing argument 'tool'"),
        (("echo", "--nope"), "No such option"),
        (("echo", "-a", "text"), "-a text: write -a name=value"),
        (("echo", "-a", "=x"), "write -a name=value"),
        (("echo", "-a", "text=1", "-a", "text=2"), "-a text=...: the argument is given twice"),
        (("echo", "-a", "count=many"), "count takes integer, and the value is not valid JSON"),
        (("echo", "-a", 'count=1, "x": 2'), "is not valid JSON"),
        (("echo", "-a", "text=@nowhere"), "nowhere cannot be read: No such file or directory"),
        (("echo", "-a", "text=x", "--args", "{}"), "exclude each other"),
        (("echo", "-a", "text=@-", "--file", "a=-"), "both read standard input"),
        (("echo", "--args-file", "nowhere"), "--args-file: nowhere cannot be read"),
        (("echo", "--file", "../a=tools/echo.yaml"), "leaves the workspace"),
        (("echo", "--file", "/etc/hosts"), "is absolute"),
        (("echo", "--file", "a=nowhere"), "nowhere cannot be read"),
        (("echo", "--timeout", "0"), "--timeout 0: give a positive number"),
        (("echo", "--timeout", "nan"), "give a positive number"),
        (("echo", "--timeout", "soon"), "valid number"),
        (("echo", "--trace-id", "xyz"), "--trace-id: not a W3C trace id"),
        (("echo", "--limit", "procesess=1"), "did you mean `processes`?"),
        (("echo", "--limit", "processes=0"), "write processes=NUMBER"),
        (("echo", "--limit", "processes"), "write processes=NUMBER"),
        (("echo", "--output", "xml"), "'xml' is not one of"),
        (("echo", "--address", "unix:/x", "--state-dir", "/y"), "--state-dir: means nothing with --address"),
    ],
)
def test_misuse_is_told_in_one_line_and_gives_2(executor, backend, words, told, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
    ran = executor("run", *words)
    assert (ran.status, ran.out) == (2, "")
    assert told in ran.err
    assert ran.err.count("\n") == 1
    assert backend.opened_count == 0


def test_bytes_that_are_not_utf_8_are_misuse(executor):
    assert executor("run", "echo", "-a", os.fsdecode(b"text=\xff")).status == 2
    assert executor("run", os.fsdecode(b"\xff")).status == 2


def test_a_host_that_cannot_run_gives_3_and_says_why(executor, backend):
    backend._unavailable = "no user namespaces here; allow them"
    ran = executor("run", "echo", "-a", "text=x")
    assert (ran.status, ran.out) == (3, "")
    assert ran.err == "executor: no user namespaces here; allow them\n"


def test_a_state_directory_that_cannot_be_made_gives_3(executor, tmp_path):
    (tmp_path / "file").touch()
    ran = executor("run", "echo", "-a", "text=x", "--state-dir", str(tmp_path / "file/state"))
    assert ran.status == 3
    assert "the state directory" in ran.err
    assert "--state-dir or EXECUTOR_STATE_DIR" in ran.err


def test_a_broken_setting_gives_3_with_its_name(executor, monkeypatch):
    monkeypatch.setenv("EXECUTOR_SLOTS", "none")
    ran = executor("run", "echo", "-a", "text=x")
    assert ran.status == 3
    assert "EXECUTOR_SLOTS: " in ran.err


def test_a_server_that_is_not_there_gives_3(executor, tmp_path):
    ran = executor("run", "echo", "--address", f"unix:{tmp_path}/none.sock")
    assert (ran.status, ran.out) == (3, "")
    assert "none.sock" in ran.err


def test_an_address_that_is_none_is_a_misuse(executor):
    assert executor("run", "echo", "--address", "example.com:1").status == 2


def test_the_fake_is_no_setting_of_the_product(executor, monkeypatch):
    monkeypatch.setenv("EXECUTOR_BACKEND", FakeBackend().name)
    assert "EXECUTOR_BACKEND: there is no such setting" in executor("run", "echo").err


def test_in_process_runs_load_no_grpc(executor):
    before = set(sys.modules)
    executor("run", "echo", "-a", "text=x")
    assert not {name for name in set(sys.modules) - before if name.split(".")[0] == "grpc"}
