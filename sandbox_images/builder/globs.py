"""Which paths of a package reach the image. Pure; paths are relative to the image's root, without a leading slash."""

import re
from collections.abc import Sequence
from functools import lru_cache

MERGED = ("bin", "sbin", "lib", "lib64")
"""Top-level directories that are links into /usr; packages may still ship files under the old names."""


def translate(glob: str) -> str:
    """`*` and `?` stay within one component, `**` crosses them."""
    pieces = re.split(r"(\*\*|\*|\?)", glob)
    wild = {"**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(wild.get(piece, re.escape(piece)) for piece in pieces)


def merged(path: str) -> str:
    """The path as it lies in a merged /usr: `./bin/sh` is `usr/bin/sh`. Empty for the root and for what is a link into
    /usr itself: those are there before the first package.
    """
    clean = "/".join(part for part in path.split("/") if part not in ("", "."))
    if clean in MERGED:
        return ""
    return f"usr/{clean}" if clean.split("/", 1)[0] in MERGED else clean


class Selection:
    """Excluded is what matches, or lies below a match; `keep` wins over it."""

    def __init__(self, exclude: Sequence[str], keep: Sequence[str]) -> None:
        self._exclude = _any_of(exclude, r"(?:/.*)?")
        self._keep = _any_of(keep, "")

    def __contains__(self, path: str) -> bool:
        return bool(self._keep.fullmatch(path)) or not self._exclude.fullmatch(path)


@lru_cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.DOTALL)


def _any_of(globs: Sequence[str], tail: str) -> re.Pattern[str]:
    alternatives = "|".join(translate(glob) for glob in globs)
    return _compiled(f"(?:{alternatives}){tail}" if globs else r"(?!)")
