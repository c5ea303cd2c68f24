r"""Bytes of a program as text that cannot act on who reads it: no control sequence, no hidden or reordered character.

Decoding is reversible (`surrogateescape`), so that a cut in the text is an exact place in the bytes. Nothing is left
out: what is not shown as itself is shown as an escape such as `\x1b`, and bytes that are no UTF-8 as U+FFFD, one for
each byte. A backslash stays as it is, so an escape looks like the same characters typed by the program; the exact
bytes are behind the stream's ref.

Escaped are the characters of the Unicode categories Cc, Cf, Cs, Zl and Zp, what else is shown as nothing (fillers,
selectors, tags), and what is no character. The table is written down, and not asked of this Python's own, so that the
same bytes are the same text everywhere. Kept on purpose: tab and newline; U+FE0E and U+FE0F, which honest emoji need
(those that U+200D joins are shown apart); and private use (Co), whose glyphs fonts for terminals draw.
"""

import codecs
import re

_RANGES = (
    *((0x00, 0x08), (0x0B, 0x1F), (0x7F, 0x9F)),  # C0 without tab and newline, DEL, C1
    *((0x00AD, 0x00AD), (0x034F, 0x034F), (0x0600, 0x0605), (0x061C, 0x061C)),  # soft hyphen, joiner, Arabic signs
    *((0x06DD, 0x06DD), (0x070F, 0x070F), (0x0890, 0x0891), (0x08E2, 0x08E2)),  # the like of other scripts
    *((0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F)),  # fillers, selectors
    *((0x200B, 0x200F), (0x2028, 0x202E), (0x2060, 0x206F)),  # zero width, separators, bidi, invisible operators
    *((0x3164, 0x3164), (0xFDD0, 0xFDEF), (0xFE00, 0xFE0D), (0xFEFF, 0xFEFF)),  # fillers, selectors, BOM
    *((0xFFA0, 0xFFA0), (0xFFF0, 0xFFFB)),  # annotations
    *((0x110BD, 0x110BD), (0x110CD, 0x110CD), (0x13430, 0x13455)),  # number signs, hieroglyph joiners
    *((0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF)),  # shorthand, musical format, tags and selectors
    *((last - 1, last) for last in range(0xFFFF, 0x110000, 0x10000)),  # no characters
)
_STRAY = range(0xDC80, 0xDD00)
"""Each stands for one byte that is no UTF-8."""
_FREQUENT = 0x3000
"""Below this each character is looked up with success, which is several times as fast as a failure."""
_SURROGATE = re.compile("(\udced[\udca0-\udcbf][\udc80-\udcbf])")
"""Three stray bytes that would be one surrogate."""
_LONGEST = 3
"""Characters that are shown as one."""
_CONTINUATION = re.compile(rb"[\x80-\xbf]{0,3}")


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
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def neutralise(text: str) -> str:
    """`text` as it may be shown. Neutral text stays as it is."""
    if "\udced" in text:
        parts = _SURROGATE.split(text)
        parts[1::2] = map(_SHOWN_SURROGATES.__getitem__, parts[1::2])
        text = "".join(parts)
    return text.replace("\r\n", "\n").translate(_SHOWN)


def parted(text: str, at: int) -> tuple[int, int]:
    r"""Where the characters begin and end that are shown as one and that a cut at `at` would part; or `at`, twice.

    Such are `\r\n`, and the three bytes of a surrogate.
    """
    if text[max(0, at - 1) : at + 1] == "\r\n":
        return at - 1, at + 1
    for start in range(max(0, at - _LONGEST + 1), at):
        if _SURROGATE.match(text, start):
            return start, start + _LONGEST
    return at, at


def _escape(code: int) -> str:
    if code == ord("\r"):
        return "\\r"
    if code <= 0xFF:  # noqa: PLR2004 - what fits into two digits
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004 - what fits into four digits


_SHOWN = (
    {code: code for code in range(_FREQUENT)}
    | {code: _escape(code) for first, last in _RANGES for code in range(first, last + 1)}
    | dict.fromkeys(_STRAY, "\ufffd")
)
"""Of single characters. A table, because a megabyte of them must not hold the service up."""
_SHOWN_SURROGATES = {
    chr(code).encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape"): _escape(code)
    for code in range(0xD800, 0xE000)
}
