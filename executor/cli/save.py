"""Writes artifacts to a directory of the user's. Their names were chosen by the program that ran: nothing is
overwritten, and nothing is written outside of the directory.
"""

import os
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import BinaryIO

from executor.model.errors import Unavailable
from executor.model.outcome import Artifact
from executor.schema.paths import path_problem

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


async def save(
    artifacts: Iterable[Artifact], directory: Path, read: Callable[[str], AsyncIterator[bytes]]
) -> tuple[Path, ...]:
    """The files written. Raises Unavailable for one that cannot be."""
    return tuple([await _save(artifact, directory, read) for artifact in artifacts])


async def _save(artifact: Artifact, directory: Path, read: Callable[[str], AsyncIterator[bytes]]) -> Path:
    if problem := path_problem(artifact.path):
        raise Unavailable(f"the artifact {artifact.path!r} cannot be saved: its path {problem}; it is {artifact.ref}")
    path = directory / artifact.path
    try:
        with _created(path, directory) as file:
            async for piece in read(artifact.ref):
                file.write(piece)
    except OSError as error:
        raise Unavailable(
            f"the artifact {artifact.path!r} cannot be saved in {directory}: {error.strerror}; it is {artifact.ref}"
        ) from None
    return path


def _created(path: Path, directory: Path) -> BinaryIO:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.parent.resolve().is_relative_to(directory.resolve()):
        raise Unavailable(f"{path} is not saved: a link leads out of {directory}")
    return os.fdopen(os.open(path, _CREATE, 0o666), "wb")
