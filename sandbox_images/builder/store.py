"""The images directory: `<name>/rootfs/` and `<name>/image.json`, replaced as a whole or not at all."""

import ctypes
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
def staged(images_dir: Path, name: str) -> Iterator[Path]:
    """A new directory beside the image, which takes its place when the block ends well."""
    try:
        images_dir.mkdir(parents=True, exist_ok=True)
        stage = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=images_dir))
    except OSError as error:
        raise BuildError(
            f"{images_dir}: cannot be written ({error.strerror}); choose another by --images-dir"
        ) from error
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
