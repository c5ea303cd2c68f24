"""What parked sandboxes hold in memory. Reads /proc; which process is what is told by the process tree alone.

A launcher is a child of the server. What it has borne is the first process of a pid namespace: a bare sandbox, which is
a copy of the launcher and has its name until it executes something, or a template, which has executed an interpreter.
What a template has borne is a sandbox too, in a pid namespace below that of the template.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from executor.bench.lines import Parked
from executor.bench.names import BARE, DATA_PYTHON, PYTHON

SETTLE_SECONDS = 5.0
_LOOK_SECONDS = 0.25
_DATA_LIBRARY = "/pandas/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    pid: int
    parent: int
    name: str
    pids: tuple[int, ...]
    """Its pid in each namespace, from ours inwards."""

    @property
    def first(self) -> bool:
        """Of a pid namespace below ours."""
        return len(self.pids) > 1 and self.pids[-1] == 1


def sandboxes(processes: Iterable[Process], server: int) -> dict[int, list[int]]:
    """All pids of each sandbox, by its first process; those of all others below the server are left out."""
    table = {one.pid: one for one in processes}
    launchers = {one.pid for one in table.values() if one.parent == server}
    found: dict[int, list[int]] = {}
    for one in table.values():
        above = list(_line_of(one, table))
        firsts = [ancestor for ancestor in above if ancestor.first]
        if launchers.isdisjoint(ancestor.pid for ancestor in above) or not firsts:
            continue
        parent = table[firsts[0].parent]
        if len(firsts) > 1 or firsts[0].name == parent.name:
            found.setdefault(firsts[0].pid, []).append(one.pid)
    return found


def _line_of(one: Process, table: Mapping[int, Process]) -> Iterator[Process]:
    """Itself, its parent, and so on."""
    here: Process | None = one
    while here is not None:
        yield here
        here = table.get(here.parent)


async def parked(server: int) -> list[Parked]:
    """When no more are made, or the time is up. Raises OSError where this user may not see them."""
    until = time.monotonic() + SETTLE_SECONDS
    seen: dict[int, list[int]] | None = None
    while seen != (now := sandboxes(_processes(server), server)) and time.monotonic() < until:
        seen = now
        await asyncio.sleep(_LOOK_SECONDS)
    kinds: dict[str, list[Mapping[str, float]]] = {}
    for first, pids in now.items():
        kinds.setdefault(_kind(first, server), []).extend(sizes(_rollup(pid)) for pid in pids)
    counts = Counter(_kind(first, server) for first in now)
    return [
        Parked(
            kind=kind,
            sandboxes=counts[kind],
            pss_mib=sum(one["Pss"] for one in found) / counts[kind],
            private_mib=sum(one["Private_Clean"] + one["Private_Dirty"] for one in found) / counts[kind],
        )
        for kind, found in sorted(kinds.items())
    ]


def _kind(first: int, server: int) -> str:
    """One that a launcher has borne is bare; the others tell by what is mapped into them."""
    if psutil.Process(psutil.Process(first).ppid()).ppid() == server:
        return BARE
    return DATA_PYTHON if _DATA_LIBRARY in Path("/proc", str(first), "maps").read_text() else PYTHON


def _rollup(pid: int) -> str:
    return Path("/proc", str(pid), "smaps_rollup").read_text()


def sizes(rollup: str) -> dict[str, float]:
    """MiB by name, of a text as /proc/PID/smaps_rollup."""
    lines = (line.split() for line in rollup.splitlines())
    return {words[0].rstrip(":"): int(words[1]) / 1024 for words in lines if words[-1] == "kB"}


def _processes(server: int) -> Iterator[Process]:
    for process in psutil.Process(server).children(recursive=True):
        try:
            status = Path("/proc", str(process.pid), "status").read_text()
            yield parse(status)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended meanwhile


def parse(status: str) -> Process:
    """What /proc/PID/status says."""
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    return Process(
        pid=int(fields["Pid"]),
        parent=int(fields["PPid"]),
        name=fields["Name"].strip(),
        pids=tuple(map(int, fields["NSpid"].split())),
    )
