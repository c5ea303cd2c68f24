import json
import logging
import os
from collections.abc import Iterator

import pytest
import structlog

from executor.model.errors import ErrorCode, ErrorDetail
from executor.model.outcome import Outcome, State, Stream
from executor.telemetry.logs import LogForm, configure, log_outcome, logger

PATIENCE_SECONDS = 30.0


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.mark.parametrize("form", LogForm)
def test_a_value_with_line_breaks_stays_one_record(form: LogForm, capfd: pytest.CaptureFixture[str]) -> None:
    lines = configure(form)
    logger("executor.test").info("a\r\nb", tool="x\ny\u2028z", nested={"k\n": ["\x1b[31m"]})
    lines.close(PATIENCE_SECONDS)
    written = capfd.readouterr()
    assert written.out == ""
    assert len(written.err.splitlines()) == 1
    assert "\x1b[31m" not in written.err.replace("\\x1b", "")


@pytest.mark.parametrize("form", LogForm)
def test_a_traceback_is_one_record_too(form: LogForm, capfd: pytest.CaptureFixture[str]) -> None:
    lines = configure(form)
    logger("executor.test").error("broke", exc_info=ValueError("first\nINFO forged"))
    lines.close(PATIENCE_SECONDS)
    written = capfd.readouterr().err
    assert len(written.splitlines()) == 1
    assert "ValueError" in written


@pytest.mark.parametrize("form", LogForm)
def test_records_of_libraries_go_the_same_way(form: LogForm, capfd: pytest.CaptureFixture[str]) -> None:
    lines = configure(form)
    logging.getLogger("grpc").warning("from %s\n", "there\nforged")
    structlog.get_logger("other").warning("direct")
    lines.close(PATIENCE_SECONDS)
    written = capfd.readouterr()
    assert written.out == ""
    assert len(written.err.splitlines()) == 2


def test_nothing_goes_to_stdout_before_it_is_configured(capfd: pytest.CaptureFixture[str]) -> None:
    logger("executor.test").error("early")
    assert capfd.readouterr().out == ""


def test_the_level_is_held(capfd: pytest.CaptureFixture[str]) -> None:
    lines = configure(LogForm.JSON, level=logging.WARNING)
    logger("executor.test").info("quiet")
    lines.close(PATIENCE_SECONDS)
    assert capfd.readouterr().err == ""


def test_the_end_of_an_invocation_is_told_without_its_output(capfd: pytest.CaptureFixture[str]) -> None:
    lines = configure(LogForm.JSON)
    outcome = Outcome(
        invocation_id="inv_1",
        state=State.FAILED,
        tool="echo",
        tool_version="1.0.0",
        call_id="c\r\n1",
        stdout=Stream(text="private"),
        error=ErrorDetail(code=ErrorCode.TIMEOUT, message="private too"),
        arguments_echo="private as well",
    )
    log_outcome(logger("executor.test"), outcome, 12.345)
    lines.close(PATIENCE_SECONDS)
    written = capfd.readouterr().err
    record = json.loads(written)
    del record["timestamp"]
    assert record == {
        "event": "invocation ended",
        "level": "info",
        "logger": "executor.test",
        "invocation_id": "inv_1",
        "call_id": "c\r\n1",
        "tool": "echo",
        "tool_version": "1.0.0",
        "state": "FAILED",
        "code": "TIMEOUT",
        "ms": 12.3,
    }


def test_what_was_left_out_is_a_record_of_its_own() -> None:
    record = json.loads(_told_by(LogForm.JSON, 7))
    del record["timestamp"]
    assert record == {
        "event": "log lines left out",
        "level": "warning",
        "logger": "executor.telemetry.logs",
        "count": 7,
        "reason": "stderr was not read",
    }
    assert _told_by(LogForm.CONSOLE, 7).count("\n") == 1


def _told_by(form: LogForm, count: int) -> str:
    lines = configure(form)
    lines.close(0)
    return lines.told(count)


def test_nobody_waits_for_a_reader_of_stderr_who_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stream, os.fdopen(reading, "rb") as reader:
        monkeypatch.setattr("sys.stderr", stream)
        lines = configure(LogForm.JSON)
        log = logger("executor.test")
        for number in range(3000):
            log.info("x" * 1000, number=number)
        lines.close(0)
        first = json.loads(reader.readline())
    assert first["number"] == 0
