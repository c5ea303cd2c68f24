"""One output stream as text for a model: bounded, neutral, and the same for the same bytes.

Whether something was left out is told by the fields `truncated`, `lossy` and `ref`. The notice in the text is a
courtesy to the reader: a program can print the same line, so no code may look for it.
"""

from executor.model.outcome import Stream
from executor.model.run import Excerpt
from executor.result import fit, neutral
from executor.result.fit import Part

_SHORT_NOTICE = "[...]"
_CUT_NOTICE = "[what came after this was dropped: the program wrote more than its output limit]"
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
    data = excerpt.head + excerpt.tail
    text = neutral.decode(data)
    if len(data) - data.count(b"\r\n") > text_bytes:  # nothing else is shown in fewer bytes than it has
        return _abridged(text, text, excerpt, text_bytes, ref)
    end, shown = fit.beginning(text, text_bytes)
    if end < len(text):
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
    end, before = _to_line_end(fit.beginning(head, room // 2), head)
    start, after = _from_line_start(fit.end(tail, room - room // 2), tail)
    left_bytes = total - neutral.source_bytes(head[:end]) - neutral.source_bytes(tail[start:])
    left_lines = head.count("\n", end, start) if excerpt.complete else None
    notice = _SHORT_NOTICE if brief else _notice(left_bytes, left_lines, total, ref)
    text = _on_own_line(before, notice)
    if after:
        text = f"{text}\n{after}"
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


def _to_line_end(part: Part, text: str) -> Part:
    """A newline, and nothing else, is shown as a newline: the last of the text is the last of what is shown."""
    border = text.rfind("\n", part.border - part.border // _NEAR, part.border)
    return Part(border + 1, part.shown[: part.shown.rfind("\n") + 1]) if border >= 0 else part


def _from_line_start(part: Part, text: str) -> Part:
    start = part.border
    if start and text[start - 1] == "\n":
        return part
    border = text.find("\n", start, start + (len(text) - start) // _NEAR)
    return Part(border + 1, part.shown[part.shown.find("\n") + 1 :]) if border >= 0 else part
