"""Nearest names, and texts that are bounded before somebody reads them. Pure; knows nothing of tools."""

import difflib
from collections.abc import Iterable

MAX_NAME_CHARS = 80
"""Of a name as a message repeats it: an unknown name is the caller's text and may be a megabyte long."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that `name` most likely stands for; None where none is near."""
    by_key: dict[str, str] = {}
    for candidate in sorted(known):
        by_key.setdefault(_key(candidate), candidate)
    key = _key(name[:MAX_NAME_CHARS])
    found = difflib.get_close_matches(key, by_key, n=1, cutoff=0.6)
    return by_key[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`did you mean ...?`, or nothing."""
    found = nearest(name, known)
    return f"did you mean `{found}`?" if found else ""


def listed(names: Iterable[str], limit: int = 40) -> str:
    """Names in the order given, as a sentence part that says how many it left out."""
    quoted = [f"`{brief(name, MAX_NAME_CHARS)}`" for name in names]
    if not quoted:
        return "none"
    left_out = len(quoted) - limit
    return ", ".join(quoted[:limit]) + (f" and {left_out} more" if left_out > 0 else "")


def brief(text: str, limit: int = 300) -> str:
    """The text with its middle left out where it is longer than `limit` characters."""
    if len(text) <= limit:
        return text
    half = max((limit - 3) // 2, 1)
    return f"{text[:half]}...{text[-half:]}"


def _key(name: str) -> str:
    """Models write cityName, city-name and City_Name for one thing."""
    return name.replace("_", "").replace("-", "").replace(" ", "").casefold() or name
