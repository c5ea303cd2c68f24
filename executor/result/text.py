"""One output stream as text for a model: bounded, neutral, and the same for the same bytes.

Whether something was left out is told by the fields `truncated`, `lossy` and `ref`. The notice in the text is a
courtesy to the reader: a program can print the same line, so no code may look for it.
"""

from executor.model.limits import MIB
from executor.model.outcome import Stream
from executor.model.run import Excerpt
from executor.result import neutral

MAX_TEXT_BYTES = 4 * MIB
"""Of each stream, whatever a manifest says: both, and all else of an outcome, must fit one message."""
_SHORT_NOTICE = "[...]"
_CUT_NOTICE = "[what came after this was dropped: the program wrote more than its output limit]"
_BLOCK = 1024
"""Characters that are looked at together, from the end of a text that may be much longer than what is shown."""
_NEAR = 4
"""A line border is near where it gives up at most one `_NEAR`-th of the part."""


def present(excerpt: Excerpt, *, text_bytes: int, ref: str, dropped_bytes: int = 0) -> Stream:
    r"""At most `text_bytes` (as UTF-8) of what the excerpt knows: all of it, or its head and its tail.

    `ref` is passed on where the text is not exactly what was written: something was left out, escaped or replaced, or
    `\r\n` became `\n`. `lossy` speaks of the bytes in the excerpt; a character that our own limit cuts is left out
    whole and is not lossy. `dropped_bytes` were written after those of the excerpt, and dropped at the output limit.
    """
    if dropped_bytes:
        return _with_cut_notice(excerpt, text_bytes, ref, dropped_bytes)
    if not excerpt.complete:
        return _abridged(neutral.decode_head(excerpt.head), neutral.decode_tail(excerpt.tail), excerpt, text_bytes, ref)
    text = neutral.decode(excerpt.head + excerpt.tail)
    if len(text) > 2 * text_bytes:  # two characters, `\\r\\n`, are shown in one byte, and no others in less
        return _abridged(text, text, excerpt, text_bytes, ref)
    shown = neutral.neutralise(text)
    if len(shown.encode()) > text_bytes:
        return _abridged(text, text, excerpt, text_bytes, ref)
    return Stream(
        text=shown,
        total_bytes=excerpt.total_bytes,
        lossy=neutral.is_lossy(text),
        ref=None if shown == text else ref,
    )


def _with_cut_notice(excerpt: Excerpt, text_bytes: int, ref: str, dropped_bytes: int) -> Stream:
    room = text_bytes - len(_CUT_NOTICE) - 1
    fits = room >= text_bytes // 2
    stream = present(_without_cut_character(excerpt), text_bytes=room if fits else text_bytes, ref=ref)
    return Stream(
        text=_on_own_line(stream.text, _CUT_NOTICE) if fits else stream.text,
        total_bytes=excerpt.total_bytes + dropped_bytes,
        truncated=True,
        lossy=stream.lossy,
        ref=ref,
    )


def _without_cut_character(excerpt: Excerpt) -> Excerpt:
    """The output limit counts bytes; it may have cut the last character."""
    data = excerpt.head + excerpt.tail
    whole = neutral.source_bytes(neutral.decode_head(data))
    return Excerpt(
        head=excerpt.head[:whole],
        tail=excerpt.tail[: max(0, whole - len(excerpt.head))],
        total_bytes=excerpt.total_bytes - len(data) + whole,
    )


def _abridged(head: str, tail: str, excerpt: Excerpt, text_bytes: int, ref: str) -> Stream:
    """`head` and `tail` are the same text where the excerpt is complete; what is kept of them never overlaps."""
    total = excerpt.total_bytes
    longest = _notice(total, total if excerpt.complete else None, total, ref)
    brief = len(longest) + 2 > text_bytes // 2
    room = max(0, text_bytes - len(_SHORT_NOTICE if brief else longest) - 2)
    end = _line_end(head, _longest_prefix(head, room // 2))
    start = _line_start(tail, _longest_suffix(tail, room - room // 2))
    left_bytes = total - neutral.source_bytes(head[:end]) - neutral.source_bytes(tail[start:])
    left_lines = head.count("\n", end, start) if excerpt.complete else None
    notice = _SHORT_NOTICE if brief else _notice(left_bytes, left_lines, total, ref)
    text = _on_own_line(neutral.neutralise(head[:end]), notice)
    if kept := neutral.neutralise(tail[start:]):
        text = f"{text}\n{kept}"
    return Stream(
        text=text if len(notice) <= text_bytes else "",
        total_bytes=total,
        truncated=True,
        lossy=neutral.is_lossy(head) or neutral.is_lossy(tail),
        ref=ref,
    )


def _notice(left_bytes: int, left_lines: int | None, total_bytes: int, ref: str) -> str:
    lines = "" if left_lines is None else f" ({left_lines} lines)"
    return f"[{left_bytes} bytes{lines} left out here; all {total_bytes} bytes are under ref {ref}]"


def _on_own_line(before: str, line: str) -> str:
    border = "\n" if before and not before.endswith("\n") else ""
    return f"{before}{border}{line}"


def _longest_prefix(text: str, room: int) -> int:
    """End of the longest beginning of `text` that is shown in `room` bytes."""
    for piece in neutral.pieces(text):
        shown = piece.shown.encode()
        if len(shown) > room:
            return piece.start + (len(shown[:room].decode(errors="ignore")) if piece.clean else 0)
        room -= len(shown)
    return len(text)


def _longest_suffix(text: str, room: int) -> int:
    """Start of the longest end of `text` that is shown in `room` bytes."""
    end = len(text)
    while end:
        start = neutral.border_before(text, end - _BLOCK)
        for piece in reversed(list(neutral.pieces(text[start:end]))):
            shown = piece.shown.encode()
            if len(shown) > room:
                kept = len(shown[len(shown) - room :].decode(errors="ignore")) if piece.clean else 0
                return start + piece.end - kept
            room -= len(shown)
        end = start
    return 0


def _line_end(text: str, end: int) -> int:
    border = text.rfind("\n", end - end // _NEAR, end)
    return border + 1 if border >= 0 else end


def _line_start(text: str, start: int) -> int:
    if start and text[start - 1] == "\n":
        return start
    border = text.find("\n", start, start + (len(text) - start) // _NEAR)
    return border + 1 if border >= 0 else start
