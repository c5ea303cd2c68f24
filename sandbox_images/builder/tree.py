"""The only writer into a root file system that is being made.

Packages bring symbolic links, absolute ones too, and later packages write through them. Every path is therefore
resolved as if the tree were `/`: a link can never lead a write out of it. Owners, times, setuid bits and devices are
dropped; directories become 0755, files 0644 or 0755, so that an unprivileged sandbox can read everything.
"""

import shutil
from collections import deque
from pathlib import Path
from typing import IO

from .errors import BuildError
from .globs import MERGED

_MOST_LINKS = 40
"""As many as the kernel follows in one path."""


class Tree:
    """`path` is always relative to the root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._parents: dict[str, Path] = {}

    def merge_usr(self) -> None:
        """First of all, so that what packages ship in /bin or /lib lands in /usr."""
        for name in MERGED:
            self.directory(f"usr/{name}")
            self.link(name, f"usr/{name}")

    def directory(self, path: str) -> None:
        """A link to a directory that is already there stays a link, as dpkg does it."""
        self._parent(f"{path}/.")

    def file(self, path: str, content: IO[bytes], *, is_executable: bool) -> None:
        place = self._vacant(path)
        with place.open("xb") as out:
            shutil.copyfileobj(content, out, 1 << 20)
        place.chmod(0o755 if is_executable else 0o644)

    def link(self, path: str, target: str) -> None:
        place = self.place(path)
        if place.is_dir() and not place.is_symlink():
            if any(place.iterdir()):
                raise BuildError(f"/{path}: cannot become a link to {target}: a directory with files is there")
            place.rmdir()
            self._parents.clear()
        self._vacant(path).symlink_to(target)

    def hard_link(self, path: str, existing: str) -> None:
        source = self.place(existing)
        if not source.is_file() or source.is_symlink():
            raise BuildError(f"/{path}: is a hard link to /{existing}, which is not in the image; do not exclude it")
        self._vacant(path).hardlink_to(source)

    def place(self, path: str) -> Path:
        """Where the path lies on this host; its parents are made, its own last component is not followed."""
        parent, _, name = path.rpartition("/")
        if name in ("", ".", ".."):
            raise BuildError(f"/{path}: is no path of a file")
        return self._parent(f"{parent}/.") / name

    def _vacant(self, path: str) -> Path:
        place = self.place(path)
        if place.is_symlink() or place.is_file():
            place.unlink()
            self._parents.clear()
        elif place.is_dir():
            raise BuildError(f"/{path}: a directory is already there; two packages disagree, or a link is missing")
        return place

    def _parent(self, path: str) -> Path:
        if path not in self._parents:
            self._parents[path] = self._walk(path)
        return self._parents[path]

    def _walk(self, path: str) -> Path:
        here = self.root
        ahead = deque(path.split("/"))
        links = 0
        while ahead:
            part = ahead.popleft()
            if part in ("", "."):
                continue
            if part == "..":
                here = here if here == self.root else here.parent
                continue
            step = here / part
            if step.is_symlink():
                links += 1
                if links > _MOST_LINKS:
                    raise BuildError(f"/{path}: goes round in symbolic links")
                target = str(step.readlink())
                here = self.root if target.startswith("/") else here
                ahead.extendleft(reversed(target.split("/")))
            else:
                here = self._entered(step, path)
        return here

    def _entered(self, step: Path, path: str) -> Path:
        if not step.exists():
            step.mkdir()
            step.chmod(0o755)
        elif not step.is_dir():
            raise BuildError(f"/{path}: lies below {step.relative_to(self.root)}, which is a file")
        return step
