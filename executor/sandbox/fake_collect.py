"""What `collect` returns of a fake disk. Pure: entries, globs and limits in, a Collection out."""

import os
from collections.abc import Mapping, Sequence

from executor.model.limits import Limits
from executor.model.run import CollectedFile, Collection, RefusedFile
from executor.sandbox.collect import display
from executor.sandbox.fake_machine import Entry, Kind
from executor.sandbox.globs import Globs


def pick(entries: Mapping[str, Entry], globs: Sequence[str], exclude: Sequence[str], limits: Limits) -> Collection:
    """In the order of the paths. `exclude` holds literal paths, whatever characters they contain."""
    files: list[CollectedFile] = []
    refused: list[RefusedFile] = []
    asked, left_bytes = Globs(globs), limits.artifact_bytes
    for path, entry in sorted(entries.items()):
        if path in exclude or not matches(asked, path):
            continue
        if reason := _refusal(entry, left_bytes, limits.artifact_count - len(files)):
            refused.append(RefusedFile(path=_shown(path), reason=reason))
            continue
        files.append(CollectedFile(path=_shown(path), content=entry.content))
        left_bytes -= len(entry.content)
    return Collection(files=tuple(files), refused=tuple(refused))


def _refusal(entry: Entry, left_bytes: int, left_count: int) -> str:
    """`""` where the file may be collected."""
    if entry.kind is not Kind.FILE:
        return entry.kind.value
    if left_count <= 0:
        return "more files than artifact_count allows"
    if len(entry.content) > left_bytes:
        return "larger than what is left of artifact_bytes"
    return ""


def matches(globs: Globs, path: str) -> bool:
    states = globs.start()
    for name in path.split("/"):
        states = globs.step(states, name)
    return globs.matches(states)


def _shown(path: str) -> str:
    return display(tuple(os.fsencode(path).split(b"/")))
