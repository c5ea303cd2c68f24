"""Tools that the service answers itself: `read_output`, with which a model pages through a large result.

Stands beside the pipeline, which has admitted the call before it asks here. Reads the output store through the one
method it needs; makes no sandbox. The answer begins where the caller asked and goes on as far as there is room, so that
the next page can begin where this one ended.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from typing import Any, Protocol

from executor.model.errors import BadRequest, ErrorCode, ErrorDetail, InvocationError, NotFound, Violation
from executor.model.invocation import Invocation
from executor.model.limits import Limits
from executor.model.outcome import Outcome, State, Stream
from executor.model.run import Excerpt, Usage
from executor.model.tool import Tool
from executor.result.text import present
from executor.stores import reading
from executor.stores.reading import Taken

NOTICE_BYTES = 160
"""Room for the line that says how to go on."""


class Reader(Protocol):
    def read(self, ref: str, tenant: str, start: int = 0, end: int | None = None) -> AsyncGenerator[bytes, None]:
        """Raises NotFound."""
        ...


class ReadOutput:
    def __init__(self, outputs: Reader, clock: Callable[[], float] = time.monotonic) -> None:
        self._outputs, self._clock = outputs, clock

    async def answer(self, invocation: Invocation, tool: Tool, arguments: Mapping[str, Any], limits: Limits) -> Outcome:
        """Raises InvocationError: SCHEMA_VIOLATION for what cannot be read, TIMEOUT."""
        began = self._clock()
        _refuse_both(arguments)
        try:
            source = self._outputs.read(arguments["ref"], invocation.principal.tenant)
            async with asyncio.timeout(limits.wall_seconds), aclosing(source):
                taken = await reading.take(_selected(source, arguments), _room(limits))
        except NotFound as error:
            raise _unfit("/ref", "ref", str(error), _ABSENT) from None
        except BadRequest as error:
            at = "/regex" if "regex" in arguments else "/end"
            raise _unfit(at, "pattern" if "regex" in arguments else "range", str(error), _MEND) from None
        except TimeoutError:
            raise _too_slow(limits) from None
        return Outcome(
            invocation_id=invocation.invocation_id,
            call_id=invocation.call_id,
            trace_id=invocation.trace_id,
            state=State.COMPLETED,
            tool=tool.name,
            tool_version=tool.version,
            tool_digest=tool.digest,
            exit_code=0,
            stdout=_shown(taken, arguments, limits),
            usage=Usage(wall_ms=(self._clock() - began) * 1000),
        )


def _selected(source: AsyncIterator[bytes], arguments: Mapping[str, Any]) -> AsyncIterator[bytes]:
    if "regex" in arguments:
        return reading.grep(source, arguments["regex"])
    return reading.lines(source, arguments.get("start", 0), arguments.get("end"))


_ABSENT = "Give the `ref` of an earlier result exactly as it was given; where its time is up, call that tool again."
_MEND = "Mend the argument and call again."


def _room(limits: Limits) -> int:
    return limits.text_bytes - NOTICE_BYTES if limits.text_bytes > 2 * NOTICE_BYTES else limits.text_bytes


def _shown(taken: Taken, arguments: Mapping[str, Any], limits: Limits) -> Stream:
    """All that was asked for, or its beginning up to a line border and how to go on."""
    content, ref = taken.content, arguments["ref"]
    if not taken.complete:
        content = content[: content.rfind(b"\n") + 1] or content
    excerpt = Excerpt(head=content, tail=b"", total_bytes=len(content))
    stream = present(excerpt, text_bytes=_room(limits), ref=ref)
    if taken.complete:
        return stream
    text = stream.text
    if _room(limits) < limits.text_bytes:
        text += ("" if text.endswith("\n") else "\n") + _notice(content, arguments)
    return Stream(text=text, total_bytes=len(taken.content), truncated=True, lossy=stream.lossy, ref=ref)


def _notice(content: bytes, arguments: Mapping[str, Any]) -> str:
    if "regex" in arguments:
        return "[more lines match: use a narrower expression, or read by lines]"
    following = int(arguments.get("start", 0)) + content.count(b"\n")
    if not content.endswith(b"\n"):
        return (
            f"[line {following} is longer than an answer: search it with a regex, or go on with start={following + 1}]"
        )
    return f"[there is more: go on with start={following}]"


def _refuse_both(arguments: Mapping[str, Any]) -> None:
    if "regex" in arguments and ("start" in arguments or "end" in arguments):
        message = "a regex and a range of lines exclude each other"
        raise _unfit("/regex", "not", message, "Leave out `regex`, or `start` and `end`.")


def _unfit(pointer: str, keyword: str, message: str, suggestion: str) -> InvocationError:
    return InvocationError(
        ErrorDetail(
            code=ErrorCode.SCHEMA_VIOLATION,
            message=f"The arguments cannot be answered: {message}",
            violations=(Violation(pointer=pointer, keyword=keyword, message=message),),
            suggestion=suggestion,
        )
    )


def _too_slow(limits: Limits) -> InvocationError:
    return InvocationError(
        ErrorDetail(
            code=ErrorCode.TIMEOUT,
            message=f"The output could not be read within {limits.wall_seconds:g} seconds.",
            retryable=True,
            suggestion="Ask for fewer lines, or with a later deadline.",
        )
    )
