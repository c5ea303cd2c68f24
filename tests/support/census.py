"""What this test process has in the world: taken before and after, equal means that nothing leaked.

Other tests and servers may run on the same machine at the same time, so it counts only what is ours: descendants of
this process, orphans that carry our name, and cgroups, mounts and files whose path holds one of the marks.
"""

import os
import re
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

import psutil

MARKS = ("executor",)
NAMES = ("executor-launch", "executor-bears")
POLL_SECONDS = 0.02
REAPERS = ("systemd", "init")
"""Names of those that adopt orphans, beside pid 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    marks: tuple[str, ...]
    """What was looked for; part of a name or path."""
    processes: frozenset[str]
    """`pid@start name`: the same pid used again is another process."""
    mounts: frozenset[str]
    cgroups: frozenset[str]
    network_namespaces: frozenset[int]
    descriptors: frozenset[tuple[str, int]]
    """Target -> how many of our descriptors point to it."""
    files: frozenset[str]


def census(*marks: str) -> Census:
    """`marks` join MARKS: give the path of a state directory, so that its mounts are seen."""
    wanted = tuple(dict.fromkeys((*MARKS, *marks)))
    ours = _our_processes()
    return Census(
        marks=wanted,
        processes=frozenset(_identity(process) for process in ours),
        mounts=_mounts(wanted),
        cgroups=_cgroups(wanted, frozenset(process.pid for process in ours)),
        network_namespaces=frozenset(_network_namespaces(ours)),
        descriptors=frozenset(_descriptors().items()),
        files=_files(wanted, frozenset(process.pid for process in ours)),
    )


def difference(before: Census, after: Census) -> dict[str, list[str]]:
    """Kind -> what is more (`+`) or less (`-`) than before; empty where nothing changed."""
    found = {}
    for field in fields(Census):
        was, now = getattr(before, field.name), getattr(after, field.name)
        if was != now:
            found[field.name] = sorted([f"+ {item}" for item in now - was] + [f"- {item}" for item in was - now])
    return found


def settled(before: Census, deadline_s: float = 3.0) -> dict[str, list[str]]:
    """Empty as soon as the world is as `before`; at the deadline, what still differs.

    Blocks: on an event loop call it through `asyncio.to_thread`, so that the loop can finish what it has begun.
    """
    deadline = time.monotonic() + deadline_s
    pause = threading.Event()
    while found := difference(before, census(*before.marks)):
        if time.monotonic() >= deadline:
            return found
        pause.wait(POLL_SECONDS)
    return {}


def leaked(before: Census, deadline_s: float = 3.0) -> dict[str, list[str]]:
    """As `settled`, of what is more than before alone: what an earlier test left may go meanwhile."""
    found = {
        kind: [item for item in items if item.startswith("+")] for kind, items in settled(before, deadline_s).items()
    }
    return {kind: items for kind, items in found.items() if items}


def processes_with(word: str) -> list[int]:
    """Pids of the live processes of the whole machine that have `word` as one of their arguments."""
    return [process.pid for process in psutil.process_iter() if _alive(process) and word in _argv(process)]


def _our_processes() -> list[psutil.Process]:
    """Descendants of this process, and orphans of ours with theirs."""
    ours = {process.pid: process for process in psutil.Process().children(recursive=True)}
    for orphan in _orphans():
        ours[orphan.pid] = orphan
        ours.update((process.pid, process) for process in _children(orphan))
    return [process for process in ours.values() if process.is_running()]


def _orphans() -> Iterator[psutil.Process]:
    """Live processes with our name whose parent is gone. One with a living parent is the business of that parent."""
    for process in psutil.process_iter():
        if (_in_our_cgroup(process.pid) or _runs_our_code(process.pid)) and _alive(process) and _is_adopted(process):
            yield process


def _is_adopted(process: psutil.Process) -> bool:
    try:
        parent = process.parent()
        return parent is None or parent.pid == 1 or parent.name() in REAPERS
    except psutil.NoSuchProcess:
        return False


def _in_our_cgroup(pid: int) -> bool:
    return any(mark in _read(f"/proc/{pid}/cgroup") for mark in MARKS)


def _runs_our_code(pid: int) -> bool:
    """By its command line, or by the name that a launcher, a template and what they bear give themselves."""
    argv = _read(f"/proc/{pid}/cmdline").split("\0")
    return _read(f"/proc/{pid}/comm").rstrip("\n") in NAMES or any(
        word == "executor" or word.startswith("executor.") for word in argv
    )


def _identity(process: psutil.Process) -> str:
    try:
        zombie = " (zombie)" if process.status() == psutil.STATUS_ZOMBIE else ""
        return f"{process.pid}@{process.create_time():.2f} {process.name()}{zombie}"
    except psutil.NoSuchProcess:
        return f"{process.pid} gone"


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _argv(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return []


def _alive(process: psutil.Process) -> bool:
    try:
        return process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False


def _mounts(marks: tuple[str, ...]) -> frozenset[str]:
    lines = _read("/proc/self/mountinfo").splitlines()
    return frozenset(line for line in lines if any(mark in line for mark in marks))


def _cgroups(marks: tuple[str, ...], ours: frozenset[int]) -> frozenset[str]:
    """Directories in every hierarchy, without those in which only processes of others live."""
    return frozenset(
        directory
        for hierarchy in _hierarchies()
        for directory, _, _ in os.walk(hierarchy)
        if any(mark in directory.removeprefix(hierarchy) for mark in marks) and not _lived_in_by_others(directory, ours)
    )


def _hierarchies() -> list[str]:
    mounts = [line.split() for line in _read("/proc/mounts").splitlines()]
    return [mount[1] for mount in mounts if mount[2] in ("cgroup", "cgroup2")]


def _lived_in_by_others(directory: str, ours: frozenset[int]) -> bool:
    owner = re.search(r"/executor-(\d+)-", f"{directory}/")
    if owner and int(owner[1]) not in ours | {os.getpid()} and Path("/proc", owner[1]).exists():
        return True
    members = {
        int(pid) for below, _, _ in os.walk(directory) for pid in _read(f"{below}/cgroup.procs").split() if pid != "0"
    }
    return bool(members) and not members & (ours | {os.getpid()})


def _network_namespaces(ours: list[psutil.Process]) -> Iterator[int]:
    for pid in [os.getpid(), *(process.pid for process in ours)]:
        try:
            yield Path(f"/proc/{pid}/ns/net").stat().st_ino
        except (FileNotFoundError, PermissionError, ProcessLookupError):
            continue


def _descriptors() -> Counter[str]:
    directory = Path("/proc/self/fd")
    found: Counter[str] = Counter()
    for name in os.listdir(directory):  # noqa: PTH208 - its own descriptor is closed again before we look
        try:
            found[str((directory / name).readlink())] += 1
        except FileNotFoundError:
            continue
    return found


def _files(marks: tuple[str, ...], ours: frozenset[int]) -> frozenset[str]:
    """Entries of the temporary directories whose name holds a mark, without those that others were started with."""
    directories = {tempfile.gettempdir(), "/dev/shm", os.environ.get("XDG_RUNTIME_DIR", "/dev/shm")}
    found = {
        str(path)
        for directory in directories
        if Path(directory).is_dir()
        for path in Path(directory).iterdir()
        if any(mark in path.name for mark in marks)
    }
    return frozenset(found - _used_by_others(found, ours) if found else ())


def _used_by_others(paths: set[str], ours: frozenset[int]) -> set[str]:
    others = (process for process in psutil.process_iter() if process.pid not in ours | {os.getpid()})
    words = [word for process in others for word in _argv(process)]
    return {path for path in paths if any(f"{path}/" in f"{word}/" for word in words)}


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
