import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from executor.model.errors import ErrorCode, ErrorDetail
from executor.model.outcome import Outcome, State, Stream
from executor.telemetry.logs import LogForm, configure, log_outcome, logger


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.mark.parametrize("form", LogForm)
def test_a_value_with_line_breaks_stays_one_record(form: LogForm, capsys: pytest.CaptureFixture[str]) -> None:
    configure(form)
    logger("executor.test").info("a\r\nb", tool="x\ny\u2028z", nested={"k\n": ["\x1b[31m"]})
    written = capsys.readouterr()
    assert written.out == ""
    assert len(written.err.splitlines()) == 1
    assert "\x1b[31m" not in written.err.replace("\\x1b", "")


@pytest.mark.parametrize("form", LogForm)
def test_a_traceback_is_one_record_too(form: LogForm, capsys: pytest.CaptureFixture[str]) -> None:
    configure(form)
    logger("executor.test").error("broke", exc_info=ValueError("first\nINFO forged"))
    written = capsys.readouterr().err
    assert len(written.splitlines()) == 1
    assert "ValueError" in written


@pytest.mark.parametrize("form", LogForm)
def test_records_of_libraries_go_the_same_way(form: LogForm, capsys: pytest.CaptureFixture[str]) -> None:
    configure(form)
    logging.getLogger("grpc").warning("from %s\n", "there\nforged")
    structlog.get_logger("other").warning("direct")
    written = capsys.readouterr()
    assert written.out == ""
    assert len(written.err.splitlines()) == 2


def test_nothing_goes_to_stdout_before_it_is_configured(capsys: pytest.CaptureFixture[str]) -> None:
    logger("executor.test").error("early")
    assert capsys.readouterr().out == ""


def test_the_level_is_held(capsys: pytest.CaptureFixture[str]) -> None:
    configure(LogForm.JSON, level=logging.WARNING)
    logger("executor.test").info("quiet")
    assert capsys.readouterr().err == ""


def test_the_end_of_an_invocation_is_told_without_its_output(capsys: pytest.CaptureFixture[str]) -> None:
    configure(LogForm.JSON)
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
    written = capsys.readouterr().err
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
