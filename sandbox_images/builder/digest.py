"""The digest of a root file system: what a sandbox can see of it, and nothing of when or by whom it was built."""

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path


def digest(root: Path) -> str:
    """SHA-256 over one record for each entry in the order of its path's bytes: path, type, mode, size, content's
    SHA-256, link target. Times, owners, inode numbers and hard links are left out.
    """
    total = hashlib.sha256()
    for path in sorted(_entries(root), key=os.fsencode):
        total.update(_record(root, path))
    return f"sha256:{total.hexdigest()}"


def size_bytes(root: Path) -> int:
    """On disk; a file with several names counts once."""
    seen = {(status.st_dev, status.st_ino): status.st_blocks * 512 for status in _statuses(root)}
    return sum(seen.values())


def _statuses(root: Path) -> Iterator[os.stat_result]:
    return (os.lstat(root / path) for path in _entries(root))


def _entries(root: Path, below: str = "") -> Iterator[str]:
    with os.scandir(root / below) as entries:
        for entry in entries:
            path = f"{below}/{entry.name}" if below else entry.name
            yield path
            if entry.is_dir(follow_symlinks=False):
                yield from _entries(root, path)


def _record(root: Path, path: str) -> bytes:
    place = root / path
    status = place.lstat()
    mode = f"{stat.S_IMODE(status.st_mode):04o}"
    kind, size, content, target = "other", 0, "", b""
    if stat.S_ISDIR(status.st_mode):
        kind = "directory"
    elif stat.S_ISLNK(status.st_mode):
        kind, mode, target = "link", "", os.fsencode(place.readlink())
    elif stat.S_ISREG(status.st_mode):
        kind, size, content = "file", status.st_size, _content_sha256(place)
    fields = [os.fsencode(path), kind.encode(), mode.encode(), str(size).encode(), content.encode(), target]
    return b"\0".join(fields) + b"\n\0"


def _content_sha256(place: Path) -> str:
    with place.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
