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

_UNSAFE = re.compile(
    "\r\n"
    "|\udced[\udca0-\udcbf][\udc80-\udcbf]"  # three stray bytes that would be a surrogate
    "|[\udc80-\udcff]"  # one stray byte
    "|["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 without tab and newline, DEL, C1
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"  # soft hyphen, joiners, fillers
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f"  # zero width, separators, bidi, invisible operators
    "\u3164\ufdd0-\ufdef\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"  # fillers, selectors, BOM, annotations
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"  # shorthand and musical format controls
    "\U000e0000-\U000e0fff"  # tags and more selectors
    "]"
)
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
    return _UNSAFE.sub(lambda match: _escape(match[0]), text)


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
