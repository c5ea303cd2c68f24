"""The peer runc: a bundle for each row, with the same namespaces and the limits that `docker run` is given here."""

import itertools
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from executor.bench.commands import which
from executor.bench.names import RUNC
from executor.bench.peer import NO_FILES, CallFailed, Party, compared
from executor.bench.roots import Root
from executor.bench.rows import Row
from executor.bench.spawned import inside, run

_NAMESPACES = ("pid", "network", "ipc", "uts", "mount", "cgroup")
_MEMORY_BYTES = 268_435_456
_PROCESSES = 64


@dataclass(frozen=True, slots=True)
class Runc:
    program: str
    directory: Path
    roots: Mapping[str, Root]
    numbers: Iterator[int] = field(default_factory=itertools.count)
    name: str = RUNC
    every: int = 3
    most_in_flight: int = 32
    processes: frozenset[int] = field(default_factory=frozenset)

    def refuses(self, row: Row) -> str | None:
        return None if row.argv else NO_FILES

    async def call(self, row: Row) -> Mapping[str, float]:
        compared(row, *await self.run(self.roots[row.image], row.argv))
        return {}

    async def run(self, root: Root, argv: Sequence[str]) -> tuple[int, bytes]:
        """Raises CallFailed where it does not start."""
        container = f"executor-bench-{os.getpid()}-{next(self.numbers)}"
        bundle = self._bundle(root, inside(root, argv))
        words = ("--root", str(self.directory / "state"), "run", "--bundle", str(bundle), container)
        return await run([self.program, *words], os.environ)

    def _bundle(self, root: Root, argv: Sequence[str]) -> Path:
        """Made once for each command."""
        name = re.sub(r"[^a-z0-9]+", "-", " ".join(argv).lower())[:80]
        bundle = self.directory / f"{root.name}-{name}-{len(' '.join(argv))}"
        if not bundle.exists():
            rootfs = bundle / "rootfs"
            for directory in (*root.directories, "proc", "dev", "tmp"):
                (rootfs / directory).mkdir(parents=True, exist_ok=True)
            for link, target in root.links.items():
                (rootfs / link).symlink_to(target)
            (bundle / "config.json").write_text(json.dumps(configuration(root, argv)))
        return bundle


def configuration(root: Root, argv: Sequence[str]) -> dict[str, Any]:
    """As the OCI runtime specification has it."""
    bound = [
        {"destination": f"/{name}", "type": "bind", "source": str(place), "options": ["rbind", "ro"]}
        for name, place in root.directories.items()
    ]
    return {
        "ociVersion": "1.0.2",
        "root": {"path": "rootfs", "readonly": True},
        "process": {
            "terminal": False,
            "user": {"uid": 65534, "gid": 65534},
            "args": list(argv),
            "env": [f"{name}={value}" for name, value in root.environment.items()],
            "cwd": "/",
            "noNewPrivileges": True,
        },
        "mounts": [
            *bound,
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
            {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev"]},  # noqa: S108
        ],
        "linux": {
            "namespaces": [{"type": name} for name in _NAMESPACES],
            "resources": {"memory": {"limit": _MEMORY_BYTES}, "pids": {"limit": _PROCESSES}},
        },
    }


async def join(party: Party) -> None:
    program = which("runc")
    if program is None:
        party.lacks(RUNC, "it is not installed; apt-get install runc")
        return
    if os.geteuid() != 0:
        party.lacks(RUNC, "its cgroups take root; run as root")
        return
    peer = Runc(program, party.directory / "runc", party.roots)
    try:
        status, output = await peer.run(next(iter(party.roots.values())), ["true"])
    except CallFailed as error:
        status, output = 1, str(error).encode()
    if status or output:
        party.lacks(RUNC, f"it does not work here: exit status {status}, {output.decode(errors='replace').strip()}")
    else:
        party.peers.append(peer)
