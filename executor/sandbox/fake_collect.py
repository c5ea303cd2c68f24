"""What `collect` returns of a fake disk. Pure: entries, globs and limits in, a Collection out."""

import os
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from executor.model.limits import Limits
from executor.model.run import CollectedFile, Collection, RefusedFile
from executor.sandbox.fake_machine import Entry, Kind


def pick(entries: Mapping[str, Entry], globs: Sequence[str], exclude: Sequence[str], limits: Limits) -> Collection:
    """In the order of the paths. `exclude` holds literal paths, whatever characters they contain."""
    files: list[CollectedFile] = []
    refused: list[RefusedFile] = []
    left_bytes = limits.artifact_bytes
    for path, entry in sorted(entries.items()):
        if path in exclude or not any(matches(glob, path) for glob in globs):
            continue
        if reason := _refusal(entry, left_bytes, limits.artifact_count - len(files)):
            refused.append(RefusedFile(path=escaped(path), reason=reason))
            continue
        files.append(CollectedFile(path=escaped(path), content=entry.content))
        left_bytes -= len(entry.content)
    return Collection(files=tuple(files), refused=tuple(refused))


def _refusal(entry: Entry, left_bytes: int, left_count: int) -> str:
    """`""` where the file may be collected."""
    if entry.kind is Kind.LINK:
        return "symbolic link"
    if entry.kind is not Kind.FILE:
        return "not a regular file"
    if left_count <= 0:
        return "more files than artifact_count allows"
    if len(entry.content) > left_bytes:
        return "larger than what is left of artifact_bytes"
    return ""


def matches(glob: str, path: str) -> bool:
    """`*` stays within one directory; `**` crosses any number of them, none included."""
    return _match(tuple(glob.split("/")), tuple(path.split("/")))


def _match(globs: tuple[str, ...], names: tuple[str, ...]) -> bool:
    if not globs:
        return not names
    if globs[0] == "**":
        return _match(globs[1:], names) or (bool(names) and _match(globs, names[1:]))
    return bool(names) and fnmatchcase(names[0], globs[0]) and _match(globs[1:], names[1:])


def escaped(path: str) -> str:
    r"""Bytes that are not UTF-8 as `\xNN`, and whatever a terminal obeys or hides as its Python escape."""
    shown = os.fsencode(path).decode("utf-8", "backslashreplace")
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in shown
    )
