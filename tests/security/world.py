"""What one server has in the world: taken before and after a test, equal means that nothing leaked.

Counts only what belongs to that server, so that others on the same machine do not disturb it. Its outputs are left out:
to keep them is what it is for. So is what its pool is made of, sandbox by sandbox: whatever has no process beside its
init, with exactly the descriptors and directories of one, in pairs and no more of them than a full pool has.
"""

import os
import re
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import psutil

from tests.security.serving import Server

SETTLE_SECONDS = 5.0
POLL_SECONDS = 0.02
OUTPUTS = "outputs"
POOL_SIZE = 2
"""Of each class, by default."""
MOST_PARKED = 4 * POOL_SIZE
PARKED = {
    "server": {"/workspace": 1, "/tmp": 1, "/dev/shm": 1, "anon_inode:[pidfd]": 1, "pipe": 3, "socket": 1},
    "launcher": {"anon_inode:[pidfd]": 1},
}
"""Descriptors that a parked sandbox costs each of the two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    processes: frozenset[str]
    """`pid@start name` of the server's descendants, and of what lives in its cgroups."""
    unpooled: int
    """Sandboxes without a program beyond what a pool holds."""
    descriptors: frozenset[str]
    """`process kind number` for the server and its launcher."""
    mounts: frozenset[str]
    """In the launcher's namespace, and those of the server's that concern its directory."""
    cgroups: frozenset[str]
    """Hierarchy and how many more directories than sandboxes."""
    network_namespaces: int
    """Beside the sandboxes' own."""
    files: frozenset[str]
    """In its state and temporary directories."""


def world(server: Server) -> World:
    below = _descendants(server.pid)
    launchers = [process.pid for process in below if _parent(process.pid) == server.pid]
    parked = [pid for pid in children(launchers) if not children([pid])]
    groups = [(base, [directory for directory, _, _ in os.walk(base)]) for base in cgroup_directories(server.pid)]
    pids = {process.pid for process in below} | set(_members(groups))
    return World(
        processes=frozenset(_identity(pid) for pid in pids - set(parked)),
        unpooled=max(len(parked) - MOST_PARKED, len(parked) % POOL_SIZE),
        descriptors=frozenset(_descriptors(server.pid, launchers, len(parked))),
        mounts=frozenset(_mounts(server, launchers)),
        cgroups=frozenset(f"{base} {len(directories) - len(parked)}" for base, directories in groups),
        network_namespaces=len(set(_network_namespaces(pids))) - len(parked),
        files=frozenset(_files(server)),
    )


def calm(server: Server, deadline_s: float = SETTLE_SECONDS) -> World:
    """Once it stays as it is for a moment and the pool is whole; at the deadline, whatever it is. Blocks."""
    deadline = time.monotonic() + deadline_s
    pause = threading.Event()
    seen = world(server)
    while time.monotonic() < deadline:
        pause.wait(2 * POLL_SECONDS)
        before, seen = seen, world(server)
        if before == seen and not seen.unpooled:
            break
    return seen


def difference(before: World, after: World) -> dict[str, list[str]]:
    """Kind -> what is more (`+`) or less (`-`) than before; empty where nothing changed."""
    found = {}
    for field in fields(World):
        was, now = getattr(before, field.name), getattr(after, field.name)
        if was != now:
            found[field.name] = _changes(was, now)
    return found


def _changes(was: Any, now: Any) -> list[str]:
    if isinstance(was, int):
        return [f"{now} instead of {was}"]
    return sorted([f"+ {item}" for item in now - was] + [f"- {item}" for item in was - now])


def settled(server: Server, before: World, deadline_s: float = SETTLE_SECONDS) -> dict[str, list[str]]:
    """Empty as soon as the world is as `before`; at the deadline, what still differs. Blocks."""
    deadline = time.monotonic() + deadline_s
    pause = threading.Event()
    while found := difference(before, world(server)):
        if time.monotonic() >= deadline:
            return found
        pause.wait(POLL_SECONDS)
    return {}


def launcher_pid(server: Server) -> int:
    """Of the one child that makes the sandboxes."""
    return psutil.Process(server.pid).children()[0].pid


def busy_sandboxes(server: Server) -> list[int]:
    """Of the init of each sandbox whose program runs now, as the host counts."""
    return [pid for pid in children([launcher_pid(server)]) if children([pid])]


def cgroup_directories(pid: int) -> list[str]:
    """The server's own, one in each hierarchy."""
    wanted = f"executor-{pid}-"
    walks = (os.walk(root) for root in _hierarchies())
    return [f"{at}/{name}" for walk in walks for at, names, _ in walk for name in names if name.startswith(wanted)]


def has_unified_cgroups(server: Server) -> bool:
    """Whether all of its limits are those of cgroup v2."""
    return all(Path(directory, "cgroup.controllers").exists() for directory in cgroup_directories(server.pid))


def _descendants(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def children(pids: Iterable[int]) -> list[int]:
    return [int(child) for pid in pids for child in _read(f"/proc/{pid}/task/{pid}/children").split()]


def _parent(pid: int) -> int:
    stat = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return int(stat[1]) if stat else 0


def _identity(pid: int) -> str:
    try:
        process = psutil.Process(pid)
        return f"{pid}@{process.create_time():.2f} {process.name()}"
    except psutil.NoSuchProcess:
        return f"{pid} gone"


def _descriptors(server_pid: int, launchers: list[int], parked_count: int) -> Iterator[str]:
    for name, pid in (("server", server_pid), *(("launcher", pid) for pid in launchers)):
        kinds = _kinds(pid)
        for kind, number in PARKED[name].items():
            kinds[kind] -= number * parked_count
        yield from (f"{name} {kind} {number}" for kind, number in kinds.items() if number)


def _kinds(pid: int) -> Counter[str]:
    """Of each kind of descriptor how many: the numbers of sockets and pipes are new each time."""
    kinds: Counter[str] = Counter()
    directory = Path(f"/proc/{pid}/fd")
    for name in os.listdir(directory):  # noqa: PTH208 - its own descriptor is closed again before we look
        try:
            kinds[re.sub(r":\[\d+\]$", "", os.readlink(directory / name))] += 1  # noqa: PTH115 - not always a path
        except FileNotFoundError:
            continue
    return kinds


def _mounts(server: Server, launchers: list[int]) -> Iterator[str]:
    for line in _read(f"/proc/{server.pid}/mountinfo").splitlines():
        if str(server.directory) in line:
            yield f"server {line}"
    for pid in launchers:
        yield from (f"launcher {line}" for line in _read(f"/proc/{pid}/mountinfo").splitlines())


def _hierarchies() -> list[str]:
    mounts = [line.split() for line in _read("/proc/self/mounts").splitlines()]
    return [mount[1] for mount in mounts if mount[2] in ("cgroup", "cgroup2")]


def _members(groups: Iterable[tuple[str, list[str]]]) -> Iterator[int]:
    for _, directories in groups:
        for directory in directories:
            yield from (int(pid) for pid in _read(f"{directory}/cgroup.procs").split() if pid != "0")


def _network_namespaces(pids: Iterable[int]) -> Iterator[int]:
    for pid in pids:
        try:
            yield Path(f"/proc/{pid}/ns/net").stat().st_ino
        except (FileNotFoundError, PermissionError, ProcessLookupError):
            continue


def _files(server: Server) -> Iterator[str]:
    outputs = server.state_dir / OUTPUTS
    for root in (server.state_dir, server.directory / "tmp"):
        yield from (str(path) for path in root.rglob("*") if not path.is_relative_to(outputs))


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
