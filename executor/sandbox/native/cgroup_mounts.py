"""Which cgroup file systems there are, and which group of each a process is in: read from the kernel's own tables.

Pure; `cgroups` reads the tables and decides what to do with them. Imported by the launcher: stdlib only.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

_ESCAPED = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mounted:
    """One cgroup file system as it is mounted here."""

    version: int
    point: Path
    root: PurePosixPath
    """The group that is seen at `point`: in a container, and not of its own cgroup namespace, one deep down."""
    controllers: tuple[str, ...]
    """On v1; a v2 file system says it in its files."""
    read_only: bool

    def group(self, own: str) -> Path | None:
        """Where the group `own`, as /proc names it, is seen; None where it is not below `root`."""
        path = PurePosixPath(own)
        if ".." in path.parts or not path.is_relative_to(self.root):
            return None
        return self.point / path.relative_to(self.root)


def mounted(mountinfo: str) -> Iterator[Mounted]:
    """`mountinfo`: /proc/self/mountinfo."""
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        _, _, _, root, point, options, *_ = left.split(" ")
        kind, _, super_options = right.split(" ", 2)
        if kind in ("cgroup", "cgroup2"):
            yield Mounted(
                version=2 if kind == "cgroup2" else 1,
                point=Path(_plain(point)),
                root=PurePosixPath(_plain(root)),
                controllers=tuple(super_options.split(",")) if kind == "cgroup" else (),
                read_only="ro" in options.split(",") or "ro" in super_options.split(","),
            )


def groups(own: str) -> dict[str, str]:
    """Of /proc/self/cgroup: controller -> the group that holds the process; the one of v2 under no name."""
    found = {}
    for line in own.splitlines():
        _, controllers, path = line.split(":", 2)
        found.update(dict.fromkeys(controllers.split(","), path))
    return found


def _plain(escaped: str) -> str:
    """The kernel writes blanks and backslashes as octal numbers."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), escaped)
