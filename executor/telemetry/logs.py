"""Log records: one line each, on stderr, whatever stands in their values. Standard output belongs to results.

Nobody waits for a record to be written: a reader of stderr who has stopped reading must not stop the service.

Every logger of the package hangs below the standard library's, so that a program that embeds us keeps the say over its
own logs, and nothing is printed before `configure`. Arguments and output of tools are never logged: they have no bound
and may hold what the caller would not show to the operator.
"""

import atexit
import logging
import re
import sys
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, cast

import structlog
from structlog.stdlib import BoundLogger, ProcessorFormatter
from structlog.typing import EventDict, Processor, WrappedLogger

from executor.model.outcome import Outcome
from executor.telemetry.lines import Lines

FLUSH_SECONDS = 1.0
"""For what is not yet written when the process ends."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class LogForm(StrEnum):
    JSON = "json"
    CONSOLE = "console"


def configure(form: LogForm, *, level: int = logging.INFO) -> Lines:
    """Once per process, before anything is logged: ours and the libraries' records go to stderr in this form.

    Gives the lines of stderr, for what is to be said between the records.
    """
    form_of: dict[LogForm, list[Processor]] = {
        LogForm.JSON: [structlog.processors.JSONRenderer()],
        LogForm.CONSOLE: [_on_one_line, structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())],
    }
    formatter = ProcessorFormatter(
        foreign_pre_chain=[structlog.stdlib.ExtraAdder()],
        processors=[
            _origin,
            ProcessorFormatter.remove_processors_meta,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            *form_of[form],
        ],
    )
    lines = Lines(sys.stderr.fileno(), lambda count: formatter.format(_left_out(count)) + "\n")
    handler = logging.StreamHandler(lines)
    handler.setFormatter(formatter)
    atexit.register(lines.close, FLUSH_SECONDS)
    # Nothing of ours tells where in the code, or in which thread, a record was made; finding out is half of its cost.
    logging._srcfile = None  # noqa: SLF001 - the logging HOWTO names it under Optimization
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    # A library that logs through structlog's own default would print to stdout.
    structlog.configure(
        processors=[ProcessorFormatter.wrap_for_formatter],
        wrapper_class=BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
    )
    return lines


def logger(name: str) -> BoundLogger:
    wrapped = structlog.wrap_logger(
        logging.getLogger(name),
        processors=[structlog.stdlib.filter_by_level, ProcessorFormatter.wrap_for_formatter],
        wrapper_class=BoundLogger,
    )
    return cast("BoundLogger", wrapped)


def log_outcome(log: BoundLogger, outcome: Outcome, elapsed_ms: float) -> None:
    """The one record of an invocation's end."""
    record: dict[str, Any] = {
        "invocation_id": outcome.invocation_id,
        "call_id": outcome.call_id,
        "trace_id": outcome.trace_id,
        "tool": outcome.tool,
        "tool_version": outcome.tool_version,
        "state": outcome.state.name,
        "exit_code": outcome.exit_code,
        "code": outcome.error.code.name if outcome.error else None,
        "ms": round(elapsed_ms, 1),
    }
    log.info("invocation ended", **{name: value for name, value in record.items() if value is not None})


def _left_out(count: int) -> logging.LogRecord:
    said = {"name": __name__, "levelno": logging.WARNING, "levelname": "WARNING", "msg": "log lines left out"}
    return logging.makeLogRecord({**said, "count": count, "reason": "stderr was not read"})


def _origin(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    record: logging.LogRecord = event["_record"]
    return {**event, "logger": record.name, "level": record.levelname.lower()}


def _on_one_line(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """JSON escapes by itself; the console's renderer does not, and gives `exception` lines of its own."""
    trace = {"traceback": event.pop("exception")} if "exception" in event else {}
    return {_escaped(name): _escaped(value) for name, value in {**event, **trace}.items()}


def _escaped(value: Any) -> Any:  # noqa: ANN401 - whatever was logged
    """Control characters, which would break a line or paint a terminal, as escapes."""
    if isinstance(value, Mapping):
        return {_escaped(name): _escaped(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_escaped(item) for item in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else repr(value)
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
