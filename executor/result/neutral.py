r"""Bytes of a program as text that cannot act on who reads it: no control sequence, no hidden or reordered character.

Decoding is reversible (`surrogateescape`), so that a cut in the text is an exact place in the bytes. Nothing is left
out: what is not shown as itself is shown as an escape such as `\x1b`, and bytes that are no UTF-8 as U+FFFD, one for
each byte. A backslash stays as it is, so an escape looks like the same characters typed by the program; the exact
bytes are behind the stream's ref.

Kept on purpose: tab and newline, and U+FE0E and U+FE0F, which honest emoji need.
"""

import codecs
import re
from collections.abc import Iterator
from typing import NamedTuple

_RANGES = (
    *((0x00, 0x08), (0x0B, 0x1F), (0x7F, 0x9F)),  # C0 without tab and newline, DEL, C1
    *((0x00AD, 0x00AD), (0x034F, 0x034F), (0x0600, 0x0605), (0x061C, 0x061C)),  # soft hyphen, joiner, Arabic signs
    *((0x06DD, 0x06DD), (0x070F, 0x070F), (0x0890, 0x0891), (0x08E2, 0x08E2)),  # the like of other scripts
    *((0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F)),  # fillers, selectors
    *((0x200B, 0x200F), (0x2028, 0x202E), (0x2060, 0x206F)),  # zero width, separators, bidi, invisible operators
    *((0x3164, 0x3164), (0xFDD0, 0xFDEF), (0xFE00, 0xFE0D), (0xFEFF, 0xFEFF)),  # fillers, selectors, BOM
    *((0xFFA0, 0xFFA0), (0xFFF0, 0xFFFB), (0xFFFE, 0xFFFF)),  # annotations
    *((0x110BD, 0x110BD), (0x110CD, 0x110CD), (0x13430, 0x13455)),  # number signs, hieroglyph joiners
    *((0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF)),  # shorthand, musical format, tags and selectors
)
_SURROGATE = "\udced[\udca0-\udcbf][\udc80-\udcbf]"
"""Three stray bytes that would be a surrogate."""
_UNSAFE = re.compile(
    "\r\n"
    f"|{_SURROGATE}"
    "|[\udc80-\udcff]"  # one stray byte
    f"|[{''.join(f'{chr(first)}-{chr(last)}' for first, last in _RANGES)}]"
)
_SURROGATES = re.compile(_SURROGATE)
_STRAY = re.compile("[\udc80-\udcff]")
_CONTINUATION = re.compile(rb"[\x80-\xbf]{0,3}")


class Piece(NamedTuple):
    start: int
    end: int
    shown: str
    clean: bool
    """Shown as itself."""


def decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def decode_head(data: bytes) -> str:
    """Without a last character that the end of `data` cuts through."""
    return codecs.getincrementaldecoder("utf-8")("surrogateescape").decode(data, final=False)


def decode_tail(data: bytes) -> str:
    """Without a first character that the beginning of `data` cuts through."""
    cut = _CONTINUATION.match(data)
    return decode(data[cut.end() if cut else 0 :])


def source_bytes(text: str) -> int:
    """How many bytes were decoded to `text`."""
    return len(text.encode("utf-8", "surrogateescape"))


def is_lossy(text: str) -> bool:
    return _STRAY.search(text) is not None


def neutralise(text: str) -> str:
    """`text` as it may be shown. Neutral text stays as it is."""
    if is_lossy(text):
        text = _SURROGATES.sub(lambda match: _escape(match[0]), text)
    return text.replace("\r\n", "\n").translate(_SHOWN)


def border_before(text: str, at: int) -> int:
    r"""`at`, or the nearest place before it that parts no `\\r\\n` and no three bytes that are shown as one escape."""
    at = max(0, at)
    for _ in range(2):
        if 0 < at < len(text) and (text[at] == "\n" or "\udc80" <= text[at] <= "\udcbf"):
            at -= 1
    return at


def pieces(text: str) -> Iterator[Piece]:
    """`text` as runs that are shown as themselves, and single escapes that must not be cut."""
    at = 0
    for match in _UNSAFE.finditer(text):
        if at < match.start():
            yield Piece(at, match.start(), text[at : match.start()], clean=True)
        yield Piece(match.start(), match.end(), _escape(match[0]), clean=False)
        at = match.end()
    if at < len(text):
        yield Piece(at, len(text), text[at:], clean=True)


def _escape(unsafe: str) -> str:
    if unsafe == "\r\n":
        return "\n"
    if unsafe == "\r":
        return "\\r"
    if len(unsafe) > 1:
        surrogate = unsafe.encode("utf-8", "surrogateescape").decode("utf-8", "surrogatepass")
        return _numbered(ord(surrogate))
    return "\ufffd" if _STRAY.match(unsafe) else _numbered(ord(unsafe))


def _numbered(code: int) -> str:
    if code <= 0xFF:  # noqa: PLR2004 - what fits into two digits
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004 - what fits into four digits


_SHOWN = {code: _escape(chr(code)) for first, last in _RANGES for code in range(first, last + 1)} | dict.fromkeys(
    range(0xDC80, 0xDD00), "\ufffd"
)
"""Of single characters. A table, because a megabyte of them must not hold the service up."""
