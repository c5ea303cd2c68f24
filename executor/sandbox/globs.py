"""Which paths below /workspace are asked for. Pure; names are strings as `os.fsdecode` gives them.

`*` and `?` match within one name, `[...]` one character of it, `**` any number of directories, and at the end of a glob
every file below. A leading dot is like any other character. A glob that is absolute or has a `..` matches nothing.

Matching goes along with the walk: a `States` says how far each glob has come, so a name is looked at once for each
place it may stand for, whatever the globs; and a directory below which nothing can match is never opened.
"""

import fnmatch
import re
from collections.abc import Iterable, Sequence

States = frozenset[tuple[int, int]]
"""(glob, parts of it that are matched)"""

_ANY_DEPTH = None
_Part = re.Pattern[str] | None
_WILD = re.compile(r"[*?\[]")


class Globs:
    def __init__(self, globs: Sequence[str]) -> None:
        self._globs = [_parts(glob) for glob in globs]
        self._literal = [_WILD.search(glob.rpartition("/")[2]) is None for glob in globs]

    def start(self) -> States:
        return self._close((glob, 0) for glob, parts in enumerate(self._globs) if parts)

    def step(self, states: States, name: str) -> States:
        """How far the globs are after one more name of the path."""
        reached = []
        for glob, matched in states:
            if matched == len(self._globs[glob]):
                continue
            part = self._globs[glob][matched]
            if part is _ANY_DEPTH:
                reached.append((glob, matched))
                if matched + 1 == len(self._globs[glob]):
                    reached.append((glob, matched + 1))
            elif part.match(name):
                reached.append((glob, matched + 1))
        return self._close(reached)

    def matches(self, states: States) -> bool:
        return any(matched == len(self._globs[glob]) for glob, matched in states)

    def names(self, states: States) -> bool:
        """Matches, and by a glob whose last part is a literal name: somebody asked for this very path."""
        return any(matched == len(self._globs[glob]) and self._literal[glob] for glob, matched in states)

    def may_match_below(self, states: States) -> bool:
        return any(matched < len(self._globs[glob]) for glob, matched in states)

    def _close(self, reached: Iterable[tuple[int, int]]) -> States:
        """With `**` standing for no directory at all, where something follows it."""
        states = set()
        for glob, matched in reached:
            states.add((glob, matched))
            parts = self._globs[glob]
            if matched + 1 < len(parts) and parts[matched] is _ANY_DEPTH:
                states.add((glob, matched + 1))  # the next part is never `**` again
        return frozenset(states)


def _parts(glob: str) -> list[_Part]:
    names = [name for name in glob.split("/") if name not in {"", "."}]
    if glob.startswith("/") or ".." in names:
        return []
    parts: list[_Part] = []
    for name in names:
        if name != "**":
            # fnmatch's expressions never look at a character twice for one `*`, so they are not exponential
            parts.append(re.compile(fnmatch.translate(name)))
        elif not parts or parts[-1] is not _ANY_DEPTH:
            parts.append(_ANY_DEPTH)
    return parts
