"""Brings files back from a sandbox's /workspace, by descriptor, never by path. In a thread, after the tree is dead.

What lies there was made by the sandbox: every name, kind, size and depth is hostile. Each directory is opened anew from
the descriptor of the root, at most two being open, so no tree however deep uses descriptors up. A size is checked
before a byte is read. Nothing is followed: no symbolic link, no mount.

First the names are found, bounded by `MAX_ENTRIES`; then, in bytewise order of their names, files are read until
`artifact_count` or `artifact_bytes` is used up.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from executor.model.limits import Limits
from executor.model.run import CollectedFile, Collection, RefusedFile
from executor.sandbox import beneath
from executor.sandbox.globs import Globs, States

MAX_DEPTH = 64
MAX_ENTRIES = 100_000
"""Names looked at in one collection."""
MAX_REFUSED = 100
"""Refusals told one by one."""
_READ_BYTES = 1024 * 1024
_KINDS = {
    stat.S_IFLNK: "symbolic link",
    stat.S_IFIFO: "named pipe",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "character device",
    stat.S_IFBLK: "block device",
    stat.S_IFDIR: "a directory: add /** to collect what is below it",
}

Path = tuple[bytes, ...]
"""Its names, from below /workspace on."""


def collect_files(
    dir_fd: int, globs: Sequence[str], exclude: Sequence[str], limits: Limits, *, max_depth: int = MAX_DEPTH
) -> Collection:
    """Regular files below `dir_fd` that match one of `globs`, and what matched and was refused, with the reason.

    `exclude` are relative paths that are left out without a word. Never raises for anything that lies there.
    """
    beneath.make_usable(dir_fd)
    search = _Search(Globs(globs), frozenset(path.encode("utf-8", "surrogateescape") for path in exclude), max_depth)
    search.look_below(dir_fd)
    reader = _Reader(limits)
    for path, reason in sorted(search.found.items()):
        reader.take(dir_fd, path, reason)
    return Collection(files=tuple(reader.files), refused=reader.all_refused())


def display(path: Path) -> str:
    r"""A path that can be shown, and that no two files share: bytes that are no UTF-8 and ASCII control characters as
    `\xNN`, other characters that do not print as `\uNNNN`, a backslash as two.
    """
    return "/".join("".join(map(_shown, os.fsdecode(name))) for name in path) or "."


def _shown(char: str) -> str:
    code = ord(char)
    if char == "\\":
        return "\\\\"
    if "\udc80" <= char <= "\udcff":
        return f"\\x{code - 0xDC00:02x}"
    if char.isprintable():
        return char
    if char.isascii():
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004 - what fits into four digits


@dataclass(slots=True)
class _Search:
    globs: Globs
    exclude: frozenset[bytes]
    max_depth: int
    entries: int = 0
    found: dict[Path, str | None] = field(default_factory=dict)
    """What is asked for, with the reason why it is refused where that is known already."""

    def look_below(self, dir_fd: int) -> None:
        waiting: list[tuple[Path, States]] = [((), self.globs.start())]
        while waiting and self.entries < MAX_ENTRIES:
            path, states = waiting.pop()
            try:
                with _directory(dir_fd, path) as fd:
                    directories = list(self._look_in(fd, path, states))
            except OSError as error:
                self.found[path] = beneath.reason(error)
                continue
            waiting.extend(sorted(directories, reverse=True, key=lambda directory: directory[0]))

    def _look_in(self, fd: int, parent: Path, states: States) -> Iterator[tuple[Path, States]]:
        """Gives the directories that are to be looked into."""
        with os.scandir(fd) as entries:
            for entry in entries:
                self.entries += 1
                if self.entries >= MAX_ENTRIES:
                    self.found[()] = f"there are {MAX_ENTRIES} files or more; the rest was not looked at"
                    return
                path = (*parent, os.fsencode(entry.name))
                below = self.globs.step(states, entry.name)
                if entry.is_dir(follow_symlinks=False):
                    yield from self._directory(path, below)
                elif self._asked_for(entry, below) and b"/".join(path) not in self.exclude:
                    self.found[path] = None

    def _directory(self, path: Path, states: States) -> Iterator[tuple[Path, States]]:
        if self.globs.names(states):
            self.found[path] = _KINDS[stat.S_IFDIR]
        if not self.globs.may_match_below(states):
            return
        if len(path) > self.max_depth:
            self.found[path] = f"deeper than {self.max_depth} directories"
        else:
            yield path, states

    def _asked_for(self, entry: "os.DirEntry[str]", states: States) -> bool:
        """Also a link to where something might have matched: that it is not followed must not go unsaid."""
        return self.globs.matches(states) or (entry.is_symlink() and self.globs.may_match_below(states))


class _Reader:
    """Reads within what is left of the limits; tells at most `MAX_REFUSED` refusals, and how many more there were."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._left_bytes = limits.artifact_bytes
        self.files: list[CollectedFile] = []
        self._refused: list[RefusedFile] = []
        self._more = 0

    def all_refused(self) -> tuple[RefusedFile, ...]:
        more = (RefusedFile(path=".", reason=f"{self._more} more were refused"),) if self._more else ()
        return (*self._refused, *more)

    def take(self, dir_fd: int, path: Path, reason: str | None) -> None:
        if len(self.files) >= self._limits.artifact_count and len(self._refused) == MAX_REFUSED:
            self._more += 1  # not even looked at
            return
        if reason is None:
            try:
                with _directory(dir_fd, path[:-1]) as parent:
                    reason = self._read(parent, path)
            except OSError as error:
                reason = beneath.reason(error)
        if reason is None:
            return
        if len(self._refused) == MAX_REFUSED:
            self._more += 1
        else:
            self._refused.append(RefusedFile(path=display(path), reason=reason))

    def _read(self, parent: int, path: Path) -> str | None:
        """The reason why it was refused, or None where it was read."""
        # Looked at before it is opened, because opening a device can have an effect; and again after, for what counts.
        if reason := self._reason(os.stat(path[-1], dir_fd=parent, follow_symlinks=False)):
            return reason
        with beneath.opened(path[-1], parent, os.O_RDONLY | os.O_NONBLOCK) as fd:
            facts = os.fstat(fd)
            if reason := self._reason(facts):
                return reason
            content = _content(fd, facts.st_size)
        self._left_bytes -= len(content)
        self.files.append(CollectedFile(path=display(path), content=content))
        return None

    def _reason(self, facts: os.stat_result) -> str | None:
        if not stat.S_ISREG(facts.st_mode):
            return _KINDS.get(stat.S_IFMT(facts.st_mode), "not a regular file")
        if not facts.st_nlink:
            return "deleted"
        if len(self.files) >= self._limits.artifact_count:
            return f"more than {self._limits.artifact_count} files (artifact_count)"
        if facts.st_size > self._left_bytes:
            return (
                f"its {facts.st_size} bytes are more than the {self._left_bytes} that are left of "
                f"{self._limits.artifact_bytes} (artifact_bytes)"
            )
        return None


def _content(fd: int, size_bytes: int) -> bytes:
    """At most `size_bytes`, whatever the file has become."""
    content = bytearray()
    while piece := os.read(fd, min(_READ_BYTES, size_bytes - len(content))):
        content += piece
    return bytes(content)


@contextmanager
def _directory(dir_fd: int, path: Path) -> Iterator[int]:
    fd = beneath.open_directory(path, dir_fd)
    try:
        yield fd
    finally:
        os.close(fd)
