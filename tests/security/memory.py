"""How much memory the server had at most, by the kernel's own high-water mark: no peak is missed between two looks."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

KIB = 1024
MIB = 1024 * KIB


@dataclass(slots=True)
class Growth:
    """Filled in when the block of `growth` is left."""

    peak_bytes: int = 0
    """Most that was resident above what was resident before."""
    kept_bytes: int = 0
    """Still resident above what was resident before."""


@contextmanager
def growth(pid: int) -> Iterator[Growth]:
    """Of the process `pid` while the block runs. Other tests must not use it meanwhile."""
    (Path("/proc") / str(pid) / "clear_refs").write_text("5")  # forgets the peak so far
    before = resident_bytes(pid)
    found = Growth()
    yield found
    found.peak_bytes = _field(pid, "VmHWM") - before
    found.kept_bytes = resident_bytes(pid) - before


def resident_bytes(pid: int) -> int:
    return _field(pid, "VmRSS")


def _field(pid: int, name: str) -> int:
    found = re.search(rf"^{name}:\s*(\d+) kB$", (Path("/proc") / str(pid) / "status").read_text(), re.MULTILINE)
    assert found, f"the kernel tells no {name} of process {pid}"
    return int(found[1]) * KIB
