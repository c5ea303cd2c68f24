"""What one server has in the world: taken before and after a test, equal means that nothing leaked.

Counts only what belongs to that server, so that others on the same machine do not disturb it. Its outputs are left out:
to keep them is what it is for.
"""

import os
import re
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path

import psutil

from tests.security.serving import Server

SETTLE_SECONDS = 5.0
POLL_SECONDS = 0.02
OUTPUTS = "outputs"


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    processes: frozenset[str]
    """`pid@start name` of the server's descendants, and of what lives in its cgroups."""
    descriptors: frozenset[str]
    """`process kind number` for the server and its launcher."""
    mounts: frozenset[str]
    """In the launcher's namespace, and those of the server's that concern its directory."""
    cgroups: frozenset[str]
    network_namespaces: frozenset[int]
    files: frozenset[str]
    """In its state and temporary directories."""


def world(server: Server) -> World:
    below = _descendants(server.pid)
    groups = frozenset(_cgroups(server.pid))
    pids = {process.pid for process in below} | set(_members(groups))
    return World(
        processes=frozenset(_identity(pid) for pid in pids),
        descriptors=frozenset(_descriptors(server.pid, below)),
        mounts=frozenset(_mounts(server, below)),
        cgroups=groups,
        network_namespaces=frozenset(_network_namespaces(pids)),
        files=frozenset(_files(server)),
    )


def difference(before: World, after: World) -> dict[str, list[str]]:
    """Kind -> what is more (`+`) or less (`-`) than before; empty where nothing changed."""
    found = {}
    for field in fields(World):
        was, now = getattr(before, field.name), getattr(after, field.name)
        if was != now:
            found[field.name] = sorted([f"+ {item}" for item in now - was] + [f"- {item}" for item in was - now])
    return found


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
    return next(process.pid for process in _descendants(server.pid) if _is_launcher(process.pid, server.pid))


def sandbox_pids(server: Server) -> list[int]:
    """Of the init of each sandbox that is open now, as the host counts."""
    return [process.pid for process in psutil.Process(launcher_pid(server)).children()]


def cgroup_directories(pid: int) -> list[Path]:
    """The server's own, one in each hierarchy."""
    return [path for root in _hierarchies() for path in Path(root).rglob(f"executor-{pid}-*")]


def _descendants(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _is_launcher(pid: int, server_pid: int) -> bool:
    stat = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return len(stat) > 1 and stat[1] == str(server_pid)


def _identity(pid: int) -> str:
    try:
        process = psutil.Process(pid)
        return f"{pid}@{process.create_time():.2f} {process.name()}"
    except psutil.NoSuchProcess:
        return f"{pid} gone"


def _descriptors(server_pid: int, below: list[psutil.Process]) -> Iterator[str]:
    launchers = [process.pid for process in below if _is_launcher(process.pid, server_pid)]
    for name, pid in (("server", server_pid), *(("launcher", pid) for pid in launchers)):
        for kind, number in _kinds(pid).items():
            yield f"{name} {kind} {number}"


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


def _mounts(server: Server, below: list[psutil.Process]) -> Iterator[str]:
    for line in _read(f"/proc/{server.pid}/mountinfo").splitlines():
        if str(server.directory) in line:
            yield f"server {line}"
    for process in below:
        if _is_launcher(process.pid, server.pid):
            yield from (f"launcher {line}" for line in _read(f"/proc/{process.pid}/mountinfo").splitlines())


def _hierarchies() -> list[str]:
    mounts = [line.split() for line in _read("/proc/self/mounts").splitlines()]
    return [mount[1] for mount in mounts if mount[2] in ("cgroup", "cgroup2")]


def _cgroups(pid: int) -> Iterator[str]:
    for base in cgroup_directories(pid):
        yield from (directory for directory, _, _ in os.walk(base))


def _members(groups: Iterable[str]) -> Iterator[int]:
    for group in groups:
        yield from (int(pid) for pid in _read(f"{group}/cgroup.procs").split() if pid != "0")


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
