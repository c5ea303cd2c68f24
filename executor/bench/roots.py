"""The file systems whose programs are run: this host's own, and built images. Every peer runs the same program of the
same one, so that what differs is the peer.
"""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from executor.bench.lines import Absence
from executor.bench.names import EVERYBODY
from executor.bench.rows import HOST, Row
from executor.sandbox.native.images import host_image
from executor.sandbox.native.init import BASE_ENVIRONMENT

_TOP = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    name: str
    path: Path
    environment: Mapping[str, str]
    """The one that our own sandboxes have."""

    def program(self, name: str) -> str | None:
        """Its absolute path inside; None where there is none."""
        places = (f"{directory}/{name}" for directory in self.environment["PATH"].split(":"))
        return next((place for place in places if os.path.lexists(self.path / place.lstrip("/"))), None)

    @property
    def links(self) -> dict[str, str]:
        """Those at its top, by name."""
        places = [self.path / name for name in _TOP]
        return {place.name: os.readlink(place) for place in places if place.is_symlink()}  # noqa: PTH115 - as written

    @property
    def directories(self) -> dict[str, Path]:
        """Those at its top that hold programs and libraries, by name."""
        places = [self.path / name for name in (*_TOP, "usr")]
        return {place.name: place for place in places if place.is_dir() and not place.is_symlink()}


def find(images_dir: Path) -> dict[str, Root]:
    """By name."""
    base = {**BASE_ENVIRONMENT, "HOME": "/"}
    found = {HOST: Root(name=HOST, path=Path("/"), environment={**base, **host_image().environment})}
    for described in images_dir.glob("*/image.json"):
        environment = json.loads(described.read_text()).get("environment", {})
        name = described.parent.name
        found[name] = Root(name=name, path=described.with_name("rootfs"), environment={**base, **environment})
    return found


def absences(rows: Iterable[Row], roots: Mapping[str, Root]) -> list[Absence]:
    """The rows that nobody can run here."""
    told = ((row.name, _missing(row, roots)) for row in rows)
    return [Absence(peer=EVERYBODY, row=name, reason=reason) for name, reason in told if reason]


def _missing(row: Row, roots: Mapping[str, Root]) -> str | None:
    root = roots.get(row.image)
    if root is None:
        return f"the image {row.image!r} is not built; `make images` of the source tree builds it"
    if root.program(row.program) is None:
        return f"there is no {row.program} in {root.environment['PATH']}; install it"
    return None
