"""Parts of what the output store holds: a range of lines, or the lines that match. Streaming, in bounded memory.

Lines are numbered from 0 everywhere. `lines` gives the exact bytes. `grep` gives `<line>:<text>`; of a line longer than
`WINDOW_BYTES` it gives the windows that match as `<line>+<byte offset in the line>:<text>`, with `[...]` where the line
goes on: an expression is matched within one window, and windows overlap by `OVERLAP_BYTES`.

Expressions are RE2: their time is linear in the text, whatever the expression. The search runs in a thread.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import re2

from executor.model.errors import BadRequest

WINDOW_BYTES = 64 * 1024
OVERLAP_BYTES = 1024
MAX_EXPRESSION = 1000
"""Characters."""
_PROGRAM_BYTES = 8 * 1024 * 1024
_MORE = b"[...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    content: bytes
    complete: bool
    """False where the source had more than was asked for."""


async def take(source: AsyncIterator[bytes], max_bytes: int) -> Taken:
    """At most the first `max_bytes` of a source; no more than one piece beyond them is read."""
    content = bytearray()
    async for piece in source:
        room = max_bytes - len(content)
        content += piece[:room]
        if len(piece) > room:
            return Taken(content=bytes(content), complete=False)
    return Taken(content=bytes(content), complete=True)


async def lines(source: AsyncIterator[bytes], start: int, end: int | None) -> AsyncIterator[bytes]:
    """The bytes of the lines from `start` up to, not including, `end`; with None to the end. Raises BadRequest."""
    if start < 0 or (end is not None and end < start):
        raise BadRequest(f"The line range {start}:{end} is not valid: give 0 <= start <= end; the first line is 0.")
    if start == end:
        return
    number = 0  # of the line at the beginning of the piece
    async for piece in source:
        breaks = piece.count(b"\n")
        first = _after_breaks(piece, start - number)
        last = len(piece) if end is None else _after_breaks(piece, end - number)
        if first < last:
            yield piece[first:last]
        number += breaks
        if end is not None and number >= end:
            return


def _after_breaks(piece: bytes, count: int) -> int:
    """Where the line begins that follows the `count`-th line break; the length where there are fewer."""
    at = 0
    for _ in range(count):
        at = piece.find(b"\n", at) + 1
        if not at:
            return len(piece)
    return at


async def grep(source: AsyncIterator[bytes], expression: str) -> AsyncIterator[bytes]:
    """The lines that match. Raises BadRequest for what is no RE2 expression, before anything is read."""
    search = _Search(compile_expression(expression))
    async for piece in source:
        if found := await asyncio.to_thread(search.feed, piece):
            yield found
    if found := search.finish():
        yield found


def compile_expression(expression: str) -> Any:  # noqa: ANN401 - re2 has no types
    """Raises BadRequest that says what is wrong, and where."""
    if len(expression) > MAX_EXPRESSION:
        raise BadRequest(f"The expression has {len(expression)} characters; at most {MAX_EXPRESSION} are taken.")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _PROGRAM_BYTES
    try:
        return re2.compile(expression, options)
    except (re2.error, UnicodeEncodeError) as error:
        raise BadRequest(f"{expression!r} is not an RE2 expression: {_reason(error, expression)}.") from None


def _reason(error: Exception, expression: str) -> str:
    if isinstance(error, UnicodeEncodeError):
        return f"the character at position {error.start} is a lone surrogate"
    reason = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else str(error)
    _, _, culprit = reason.rpartition(": ")
    at = expression.find(culprit) if culprit and culprit != reason else -1
    hint = " (lookaround and backreferences do not exist in RE2)" if re.search(r"\(\?[=!<]|\\[1-9]", culprit) else ""
    return f"{reason}, at position {at}{hint}" if at >= 0 else f"{reason}{hint}"


class _Search:
    """Cuts a stream into lines, and long lines into windows, and keeps what matches. Synchronous."""

    def __init__(self, pattern: Any) -> None:  # noqa: ANN401 - re2 has no types
        self._pattern = pattern
        self._pending = bytearray()
        """The beginning of a line whose end was not seen yet; less than a window."""
        self._number = 0
        self._offset = 0
        """Of `_pending` in its line; above 0 only in a long line."""

    def feed(self, data: bytes) -> bytes:
        found = bytearray()
        at = 0
        while (border := data.find(b"\n", at)) >= 0:
            self._extend(data[at:border], found)
            self._end_line(found)
            at = border + 1
        self._extend(data[at:], found)
        return bytes(found)

    def finish(self) -> bytes:
        found = bytearray()
        if self._pending:
            self._end_line(found)
        return bytes(found)

    def _extend(self, data: bytes, found: bytearray) -> None:
        self._pending += data
        while len(self._pending) > WINDOW_BYTES:
            self._look(bytes(self._pending[:WINDOW_BYTES]), found, goes_on=True)
            del self._pending[: WINDOW_BYTES - OVERLAP_BYTES]
            self._offset += WINDOW_BYTES - OVERLAP_BYTES

    def _end_line(self, found: bytearray) -> None:
        self._look(bytes(self._pending), found, goes_on=False)
        self._pending.clear()
        self._number += 1
        self._offset = 0

    def _look(self, window: bytes, found: bytearray, *, goes_on: bool) -> None:
        text = window.removesuffix(b"\r")
        # Within a long line the outermost bytes are context only: `^` and `$` must not match at a window's border.
        first, last = int(self._offset > 0), len(text) - int(goes_on)
        if self._pattern.search(text, first, last):
            offset = b"+%d" % self._offset if self._offset or goes_on else b""
            found += b"%d%b:%b%b\n" % (self._number, offset, window, _MORE if goes_on else b"")
