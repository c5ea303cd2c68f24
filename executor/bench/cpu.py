"""Processor time of a peer's calls, with all that is done for them later. Reads /proc; the sums are pure.

Counted are this process, its descendants (the server, its launcher, the sandboxes, the commands), what a peer names
beside them, and the kernel's threads, to which the clean-up of namespaces and cgroups falls after a call has ended.
Other processes of the machine do not count; what they make the kernel do does, and the rest of what its threads do:
therefore their rate of an idle while is taken off. What runs in interrupts is seen by nobody.
"""

import os
import resource
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

KTHREADD = 2
"""Parent of the kernel's threads, where we see them: not in a container with a pid namespace of its own."""
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Process:
    parent: int
    seconds: float
    """Its own, and of its children that it has waited for."""


@dataclass(frozen=True, slots=True)
class Reading:
    processes: float
    """Seconds."""
    kernel_threads: float

    def __sub__(self, earlier: "Reading") -> "Reading":
        return Reading(self.processes - earlier.processes, self.kernel_threads - earlier.kernel_threads)


def read(beside: frozenset[int] = frozenset()) -> Reading:
    """`beside` are the processes that a peer names, with their descendants."""
    table = _table()
    others = descendants(table, beside | {os.getpid()}) - {os.getpid()}
    own = sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )
    return Reading(
        processes=own + sum(table[pid].seconds for pid in others),
        kernel_threads=sum(filter(None, map(_precise, (pid for pid, one in table.items() if one.parent == KTHREADD)))),
    )


def parse(stat: str) -> Process:
    """A line of /proc/PID/stat. The name in it may hold anything, blanks and brackets too."""
    fields = stat.rpartition(")")[2].split()
    return Process(parent=int(fields[1]), seconds=sum(map(int, fields[11:15])) / _TICKS)


def descendants(table: Mapping[int, Process], roots: Iterable[int]) -> frozenset[int]:
    """The roots that live, and all below them."""
    children: dict[int, list[int]] = {}
    for pid, one in table.items():
        children.setdefault(one.parent, []).append(pid)
    found: set[int] = set()
    waiting = [pid for pid in roots if pid in table]
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting.extend(children.get(pid, ()))
    return frozenset(found)


def _table() -> dict[int, Process]:
    found = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                found[int(entry.name)] = parse(Path(entry.path, "stat").read_text())
            except (FileNotFoundError, ProcessLookupError):
                continue  # it ended meanwhile
    return found


def _precise(pid: int) -> float | None:
    """In nanoseconds inside, because a thread of the kernel often runs for less than a tick."""
    try:
        return int(Path("/proc", str(pid), "schedstat").read_text().split()[0]) / 1e9
    except (FileNotFoundError, ProcessLookupError):
        return None
