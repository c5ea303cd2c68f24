"""The text of arguments to one JSON value, strictly; and the one repair that is safe: typographic syntax.

Models that write Chinese or Japanese, or whose text went through a typesetter, put full-width punctuation and curly
quotes where JSON wants its own. Those are normalised (NFKC, and quotes by their pairs) outside of strings only; what
stands inside a string is never touched. Everything else that is wrong is refused by name, never guessed at.
"""

import re
from collections.abc import Mapping
from typing import Any

from executor.admission.json_strict import Refused, strict

SYNTAX: Mapping[str, str] = {
    typographic: plain
    for plain, variants in {
        "{": "\uff5b\ufe5b\ufe37",
        "}": "\uff5d\ufe5c\ufe38",
        "[": "\uff3b\ufe47",
        "]": "\uff3d\ufe48",
        ":": "\uff1a\ufe55\ufe13",
        ",": "\uff0c\ufe50\ufe10",
        " ": "\u3000\u00a0\u2002\u2003\u2009\u202f",
    }.items()
    for typographic in variants
}
"""Each is what NFKC makes of it: full-width, small and vertical forms, and wide spaces."""

QUOTES: Mapping[str, str] = {
    "\uff02": "\uff02",
    "\u201c": "\u201d",
    "\u201d": "\u201d",
    "\u201e": "\u201c\u201d",
    "\u201f": "\u201d",
    "\u301d": "\u301e\u301f",
}
"""A quote that opens a string, and what may close that string: full-width, curly, low, reversed, prime."""

_NORMALISED = re.compile(
    "|".join(
        (
            r'(?P<plain>"(?:[^"\\]++|\\.)*+"?)',
            *(rf"{opens}(?:[^{closes}\\]++|\\.)*+[{closes}]?" for opens, closes in QUOTES.items()),
            f"[{re.escape(''.join(SYNTAX))}]",
        )
    ),
    re.DOTALL,
)
_INNER_QUOTE = re.compile(r'\\.|"', re.DOTALL)


def read(text: str, max_depth: int) -> Any:  # noqa: ANN401 - JSON is any
    """The value of `text`, strictly or else with its syntax normalised. Raises Refused."""
    try:
        return strict(text, max_depth)
    except Refused as refused:
        mended = normalised(text) if refused.keyword == "syntax" else text
        if mended == text:
            raise
        return _second_try(mended, max_depth, refused)


def normalised(text: str) -> str:
    """The text with typographic JSON syntax as JSON's own; strings keep every character."""
    return _NORMALISED.sub(_normalised_token, text)


def _second_try(mended: str, max_depth: int, refused: Refused) -> Any:  # noqa: ANN401
    try:
        return strict(mended, max_depth)
    except Refused as again:
        # Only the first text is the caller's: its line and column are the ones to tell.
        raise (refused if again.keyword == "syntax" else again) from None


def _normalised_token(match: re.Match[str]) -> str:
    token = match[0]
    if match["plain"] is not None:
        return token
    if token in SYNTAX:
        return SYNTAX[token]
    if len(token) == 1 or token[-1] not in QUOTES[token[0]]:
        return token
    inner = _INNER_QUOTE.sub(lambda m: '\\"' if m[0] == '"' else m[0], token[1:-1])
    return f'"{inner}"'
