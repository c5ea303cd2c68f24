"""The images directory: `<name>/rootfs/` and `<name>/image.json`, replaced as a whole or not at all."""

import ctypes
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from .errors import BuildError

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def metadata(image: Path) -> Mapping[str, object] | None:
    """None where there is no image, or one that no builder finished."""
    try:
        content = json.loads((image / "image.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) and (image / "rootfs").is_dir() else None


@contextmanager
def locked(directory: Path, remedy: str) -> Iterator[None]:
    """One build at a time; others wait. apt's own lock would refuse instead."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        handle = (directory / ".lock").open("w")
    except OSError as error:
        raise BuildError(f"{directory}: cannot be written ({error.strerror}); {remedy}") from error
    with handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextmanager
def staged(images_dir: Path, name: str) -> Iterator[Path]:
    """A new directory beside the image, which takes its place when the block ends well. Under the lock alone."""
    for abandoned in images_dir.glob(f".{name}-*"):
        shutil.rmtree(abandoned, ignore_errors=True)
    stage = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=images_dir))
    try:
        stage.chmod(0o755)
        yield stage
        _replace(stage, images_dir / name)
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _replace(stage: Path, image: Path) -> None:
    """Afterwards `stage` is what was there before, or gone."""
    if image.exists():
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.renameat2(_AT_FDCWD, os.fsencode(stage), _AT_FDCWD, os.fsencode(image), _RENAME_EXCHANGE):
            raise BuildError(
                f"{image}: cannot be replaced: {os.strerror(ctypes.get_errno())}; remove it and build again"
            )
    else:
        stage.rename(image)
