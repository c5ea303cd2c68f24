"""What one server has in the world: taken before and after a test, equal means that nothing leaked.

Counts only what belongs to that server, so that others on the same machine do not disturb it. Its outputs are left out:
to keep them is what it is for. So is what its pool is made of, sandbox by sandbox: whatever waits for its call as a
parked sandbox does, with exactly the descriptors and directories of one, and no more of them than a full pool has.
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

from executor.sandbox.native.namespaces import KEPT_NETWORKS
from executor.sandbox.native.pool import MAX_CLASSES, WINDOW_SECONDS
from executor.sandbox.native.template import PARKED_NAME
from tests.security.serving import Server

SETTLE_SECONDS = 5.0
REST_SECONDS = 4 * WINDOW_SECONDS
"""For the pool to forget a demand: it remembers one for two windows, and looks once in each."""
POLL_SECONDS = 0.02
CALM_POLLS = 3
"""So many looks in a row that find the same."""
OUTPUTS = "outputs"
BEARS = PARKED_NAME.decode()
"""Name of a template, and of each copy of it until its call comes."""
PARKED = {
    "server": {"/workspace": 1, "/tmp": 1, "/dev/shm": 1, "anon_inode:[pidfd]": 1, "pipe": 3, "socket": 1},
    "launcher": {"anon_inode:[pidfd]": 1, "mnt": 1},
    "template": {"anon_inode:[pidfd]": 1},
}
"""Descriptors that a parked sandbox costs the server, its launcher, and its template where it has one."""
PARKED_NETWORK = "net"
"""One more, in whoever gave birth to it; so is each network that is kept for a later sandbox."""
COUNTER = re.compile(r".*/executor-\d+-[^/]*/sandbox-\d+/(.*)")
"""A file of a sandbox's cgroup: the server holds one of each kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    processes: frozenset[str]
    """`pid@start name` of the server's descendants, and of what lives in its cgroups."""
    unpooled: int
    """Sandboxes without a program beyond what a full pool holds."""
    descriptors: frozenset[str]
    """`process pid kind number` for the server, its launchers and its templates, without what is parked."""
    mounts: frozenset[str]
    """In the launchers' and templates' namespaces, and those of the server's that concern its directory."""
    cgroups: frozenset[str]
    """Hierarchy and how many more directories than sandboxes."""
    network_namespaces: int
    """Beside the sandboxes' own."""
    files: frozenset[str]
    """In its state and temporary directories."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandboxes:
    """Pids of one server's, as the host counts."""

    launchers: tuple[int, ...]
    templates: tuple[int, ...]
    parked: dict[int, int]
    """Init -> the launcher or template that gave birth to it."""
    heirs: frozenset[int]
    """In a parked sandbox of a template: what is to become the program."""
    busy: tuple[int, ...]
    """Inits of all others that live."""

    def parked_of(self, parent: int) -> int:
        return sum(1 for one in self.parked.values() if one == parent)


def sandboxes(pid: int) -> Sandboxes:
    """Of the server `pid`."""
    launchers = tuple(children([pid]))
    templates = tuple(child for child in children(launchers) if name(child) == BEARS)
    parked, heirs, busy = {}, set[int](), []
    for parent in (*launchers, *templates):
        for init in children([parent]):
            if init in templates or _is_dead(init):
                continue
            below = children([init])
            if not below or (parent in templates and [name(one) for one in below] == [BEARS]):
                parked[init] = parent
                heirs.update(below)
            else:
                busy.append(init)
    return Sandboxes(launchers=launchers, templates=templates, parked=parked, heirs=frozenset(heirs), busy=tuple(busy))


def world(server: Server) -> World:
    return _world(server, sandboxes(server.pid))


def _world(server: Server, found: Sandboxes) -> World:
    groups = [(base, [directory for directory, _, _ in os.walk(base)]) for base in cgroup_directories(server.pid)]
    pids = {process.pid for process in _descendants(server.pid)} | set(_members(groups))
    parked = len(found.parked)
    return World(
        processes=frozenset(_identity(pid) for pid in pids - {*found.parked} - found.heirs),
        unpooled=max(0, parked - server.pool_size),
        descriptors=frozenset(_descriptors(server.pid, found)),
        mounts=frozenset(_mounts(server, found)),
        cgroups=frozenset(f"{base} {len(directories) - parked}" for base, directories in groups),
        network_namespaces=len(set(_network_namespaces(pids))) - parked,
        files=frozenset(_files(server)),
    )


def calm(server: Server, deadline_s: float = SETTLE_SECONDS) -> World:
    """Once it and the pool stay as they are for a moment; at the deadline, whatever it is. Blocks."""
    deadline = time.monotonic() + deadline_s
    pause = threading.Event()
    seen: tuple[World, Sandboxes] | None = None
    alike = 0
    while True:
        found = sandboxes(server.pid)
        before, seen = seen, (_world(server, found), found)
        alike = alike + 1 if before == seen and not seen[0].unpooled else 0
        if alike >= CALM_POLLS - 1 or time.monotonic() >= deadline:
            return seen[0]
        pause.wait(2 * POLL_SECONDS)


def unclaimed(server: Server, deadline_s: float = REST_SECONDS) -> list[int]:
    """Inits that look parked and that the pool of a server at rest does not account for: it has as many of each kind as
    it keeps at least. Empty as soon as there are none; at the deadline, all that look parked. Blocks.
    """
    deadline = time.monotonic() + deadline_s
    pause = threading.Event()
    while True:
        parked = [*sandboxes(server.pid).parked]
        kinds, odd = divmod(len(parked), server.pool_least) if server.pool_size else (0, len(parked))
        if not odd and kinds <= MAX_CLASSES:
            return []
        if time.monotonic() >= deadline:
            return parked
        pause.wait(POLL_SECONDS)


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


def busy_sandboxes(server: Server) -> list[int]:
    """Of the init of each sandbox whose program runs now, as the host counts."""
    return [*sandboxes(server.pid).busy]


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


def name(pid: int) -> str:
    return _read(f"/proc/{pid}/comm").rstrip("\n")


def _is_dead(pid: int) -> bool:
    """A zombie: its parent is about to be told."""
    return _read(f"/proc/{pid}/stat").rpartition(")")[2].split()[:1] in ([], ["Z"], ["X"])


def _identity(pid: int) -> str:
    try:
        process = psutil.Process(pid)
        return f"{pid}@{process.create_time():.2f} {process.name()}"
    except psutil.NoSuchProcess:
        return f"{pid} gone"


def _descriptors(server_pid: int, found: Sandboxes) -> Iterator[str]:
    for pid, costs in _costs(server_pid, found):
        kinds = _kinds(pid)
        kinds.subtract(costs)
        if pid != server_pid:
            kept = kinds.pop(PARKED_NETWORK, 0) - 1  # the one that it lives in itself
            kinds["network beyond those that are kept"] = max(0, kept - KEPT_NETWORKS)
        yield from (f"{name(pid)} {pid} {kind} {number}" for kind, number in kinds.items() if number)


def _costs(server_pid: int, found: Sandboxes) -> Iterator[tuple[int, Counter[str]]]:
    """Of each process, what its parked sandboxes cost it."""
    parked = len(found.parked)
    counters = Counter({kind: parked for kind in _kinds(server_pid) if kind.startswith("counter ")})
    if any(Path(base, "cgroup.event_control").exists() for base in cgroup_directories(server_pid)):
        counters["anon_inode:[eventfd]"] = parked
    yield server_pid, _times(PARKED["server"], parked) + counters
    below = Counter(found.parked.values())
    for pid in found.launchers:
        own = below[pid]
        forked = sum(below[one] for one in found.templates if _parent(one) == pid)
        yield pid, _times(PARKED["launcher"], own + forked) + Counter({PARKED_NETWORK: own})
    for pid in found.templates:
        yield pid, _times(PARKED["template"] | {PARKED_NETWORK: 1}, below[pid])


def _times(costs: dict[str, int], number: int) -> Counter[str]:
    return Counter({kind: cost * number for kind, cost in costs.items()})


def _parent(pid: int) -> int:
    stat = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return int(stat[1]) if stat else 0


def _kinds(pid: int) -> Counter[str]:
    """Of each kind of descriptor how many: the numbers of sockets, pipes and sandboxes are new each time."""
    kinds: Counter[str] = Counter()
    directory = Path(f"/proc/{pid}/fd")
    for number in os.listdir(directory):  # noqa: PTH208 - its own descriptor is closed again before we look
        try:
            target = os.readlink(directory / number)  # noqa: PTH115 - not always a path
        except FileNotFoundError:
            continue
        kinds[COUNTER.sub(r"counter \1", re.sub(r":\[\d+\]$", "", target))] += 1
    return kinds


def _mounts(server: Server, found: Sandboxes) -> Iterator[str]:
    for line in _read(f"/proc/{server.pid}/mountinfo").splitlines():
        if str(server.directory) in line:
            yield f"server {line}"
    for pid in (*found.launchers, *found.templates):
        yield from (f"{name(pid)} {pid} {line}" for line in _read(f"/proc/{pid}/mountinfo").splitlines())


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
