"""Limits of a process tree as a whole, and the kernel's own counters of it: cgroup v2, and v1 as older hosts have it.

The server finds the place (`locate`; what v2 asks of it is in `delegation`), the launcher makes, fills and removes the
directories (`Cgroup`), the server reads the counters (`Counters`). Imported by the launcher: stdlib only.
"""

import contextlib
import errno
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from executor.sandbox.native import cgroup_mounts, delegation
from executor.sandbox.native.cgroup_mounts import Mounted
from executor.sandbox.native.delegation import Place
from executor.sandbox.native.plan import Hierarchy

WANTED = ("memory", "pids", "cpu")
"""Without these a sandbox is not limited."""
COUNTED = ("cpuacct",)
"""Only counts; on v2 `cpu` does."""
PREFIX = "executor-"
_PERIOD_US = 100_000
_NO_CPU_RATE = {"cpu.cfs_quota_us": "-1", "cpu.max": "max"}
"""For a tree that is killed: to die takes processor time too, and under its quota that could be seconds."""
_GONE = (errno.ENOENT, errno.ESRCH)


def limits(memory_bytes: int, processes: int, cpu_cores: float) -> dict[str, str]:
    """File name -> value, for both versions; a hierarchy takes those that it has."""
    quota = max(1000, int(cpu_cores * _PERIOD_US))
    return {
        "memory.limit_in_bytes": str(memory_bytes),
        "memory.memsw.limit_in_bytes": str(memory_bytes),
        "memory.max": str(memory_bytes),
        "memory.swap.max": "0",
        "memory.oom.group": "1",
        "pids.max": str(processes + 1),  # and its init
        "cpu.cfs_period_us": str(_PERIOD_US),
        "cpu.cfs_quota_us": str(quota),
        "cpu.max": f"{quota} {_PERIOD_US}",
    }


# --- where ----------------------------------------------------------------------------------------------------------


def locate(name: str) -> tuple[tuple[Hierarchy, ...], dict[str, str]]:
    """The hierarchies in which this process may limit sandboxes, each with a new directory `name` in it, to which the
    pid namespace is added; and for each controller of WANTED that is missing, why.
    """
    found: list[Hierarchy] = []
    why: dict[str, str] = {}
    own = cgroup_mounts.groups(Path("/proc/self/cgroup").read_text())
    for mount in cgroup_mounts.mounted(Path("/proc/self/mountinfo").read_text()):
        have = {controller for one in found for controller in one.controllers}
        wanted = tuple(c for c in WANTED + COUNTED if c in _controllers(mount) and c not in have)
        if not wanted:
            continue
        place = _place(mount, own, f"{name}-{_pid_namespace()}", wanted)
        why |= place.refused
        if place.base:
            granted = tuple(controller for controller in wanted if controller not in place.refused)
            found.append(Hierarchy(version=mount.version, controllers=granted, base=str(place.base)))
            sweep(place.base.parent, keep=place.base.name)
    have = {controller for one in found for controller in one.controllers}
    missing = {c: why.get(c, "no cgroup file system that is mounted here has it") for c in WANTED if c not in have}
    return tuple(found), missing


def _controllers(mount: Mounted) -> tuple[str, ...]:
    if mount.version == 1:
        return mount.controllers
    with contextlib.suppress(OSError):
        return tuple((mount.point / "cgroup.controllers").read_text().split())
    return ()


def _place(mount: Mounted, own: Mapping[str, str], name: str, wanted: tuple[str, ...]) -> Place:
    if mount.read_only:
        reason = f"{mount.point} is mounted read-only; a container must be given a cgroup file system that it can write"
        return Place(base=None, refused=dict.fromkeys(wanted, reason))
    if mount.version == 1:
        return _v1_place(mount, own.get(wanted[0], "/"), name, wanted)
    here = mount.group(own.get("", "/"))
    return delegation.make_place(mount.point, here, name, wanted, as_root=os.geteuid() == 0)


def _v1_place(mount: Mounted, own: str, name: str, wanted: tuple[str, ...]) -> Place:
    reason = ""
    for parent in (mount.group(own) or mount.point, mount.point):
        try:
            (parent / name).mkdir()
        except OSError as error:
            reason = reason or f"{parent}: {error.strerror}"
        else:
            return Place(base=parent / name, refused={})
    return Place(base=None, refused=dict.fromkeys(wanted, reason))


def _pid_namespace() -> int:
    return Path("/proc/self/ns/pid").stat().st_ino


def sweep(parent: Path, keep: str) -> None:
    """Remove what servers that are dead left behind. A group with a living process in it refuses to go; whether a
    server of another pid namespace lives cannot be seen from here.
    """
    for old in parent.glob(f"{PREFIX}[0-9]*"):
        match = re.fullmatch(rf"{PREFIX}(\d+)-.*-{_pid_namespace()}", old.name)
        if match and old.name != keep and not Path("/proc", match[1]).exists():
            for group in (*old.iterdir(), old):
                if group.is_dir():
                    with contextlib.suppress(OSError):
                        group.rmdir()


def remove_base(hierarchies: Iterable[Hierarchy]) -> bool:
    """False where something in it is still on its way out."""
    gone = True
    for hierarchy in hierarchies:
        try:
            if hierarchy.version == 1:
                Path(hierarchy.base).rmdir()
            else:
                delegation.remove_place(Path(hierarchy.base))
        except OSError as error:
            gone = gone and error.errno in _GONE
    return gone


def remove_sandboxes(hierarchies: Iterable[Hierarchy]) -> None:
    """What a launcher that was killed left behind. A group with a living process in it refuses to go."""
    for hierarchy in hierarchies:
        for group in Path(hierarchy.base).glob("sandbox-*"):
            with contextlib.suppress(OSError):
                group.rmdir()


# --- one sandbox's --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OpenHierarchy:
    """A hierarchy by descriptor, because the launcher leaves the host's file system behind."""

    version: int
    directory: int

    @classmethod
    def of(cls, hierarchy: Hierarchy) -> "OpenHierarchy":
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        return cls(version=hierarchy.version, directory=os.open(hierarchy.base, flags))


class Cgroup:
    """The directories of one sandbox, one in each hierarchy."""

    def __init__(self, hierarchies: Iterable[OpenHierarchy], name: str) -> None:
        self._hierarchies = tuple(hierarchies)
        self._name = name

    def make(self, values: Mapping[str, str]) -> None:
        for hierarchy in self._hierarchies:
            os.mkdir(self._name, 0o755, dir_fd=hierarchy.directory)
            for file, value in values.items():
                self._write(hierarchy, file, value)

    def into(self) -> int:
        """A descriptor for CLONE_INTO_CGROUP, or -1 where there is only v1."""
        for hierarchy in self._hierarchies:
            if hierarchy.version == 2:  # noqa: PLR2004
                return os.open(self._name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=hierarchy.directory)
        return -1

    def attach(self, pid: int) -> None:
        for hierarchy in self._hierarchies:
            if hierarchy.version == 1:
                self._write(hierarchy, "cgroup.procs", str(pid))

    def lift_cpu_rate(self) -> None:
        for hierarchy in self._hierarchies:
            for file, value in _NO_CPU_RATE.items():
                with contextlib.suppress(OSError):
                    self._write(hierarchy, file, value)

    def remove(self) -> bool:
        """False where a process is still on its way out."""
        gone = True
        for hierarchy in self._hierarchies:
            try:
                os.rmdir(self._name, dir_fd=hierarchy.directory)
            except OSError as error:
                gone = gone and error.errno in _GONE
        return gone

    def _write(self, hierarchy: OpenHierarchy, file: str, value: str) -> None:
        try:
            fd = os.open(f"{self._name}/{file}", os.O_WRONLY | os.O_CLOEXEC, dir_fd=hierarchy.directory)
        except FileNotFoundError:
            return  # a file of the other version, or of another controller
        try:
            os.write(fd, value.encode())
        finally:
            os.close(fd)


class Counters:
    """The server's view of one sandbox's groups: what the kernel counted, None where this host does not count it; and
    what helps a tree to die.
    """

    def __init__(self, hierarchies: Iterable[Hierarchy], name: str) -> None:
        self._directories = tuple(Path(h.base, name) for h in hierarchies)

    def cpu_seconds(self) -> float | None:
        if (text := self._read("cpuacct.usage")) is not None:
            return int(text) / 1e9
        usage = self._field("cpu.stat", "usage_usec")
        return None if usage is None else usage / 1e6

    def peak_memory_bytes(self) -> int | None:
        text = self._read("memory.max_usage_in_bytes") or self._read("memory.peak")
        return int(text) if text else None

    def peak_processes(self) -> int | None:
        text = self._read("pids.peak")
        return max(0, int(text) - 1) if text else None

    def oom_kills(self) -> int:
        return self._field("memory.oom_control", "oom_kill") or self._field("memory.events", "oom_kill") or 0

    def pids_refused(self) -> int:
        return self._field("pids.events", "max") or 0

    def oom_events(self) -> int:
        """An eventfd that becomes readable when memory runs out, on v1; -1 on v2, which kills the tree by itself."""
        for directory in self._directories:
            control = directory / "cgroup.event_control"
            if (directory / "memory.oom_control").exists() and control.exists():
                event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
                with (directory / "memory.oom_control").open() as subject:
                    control.write_text(f"{event} {subject.fileno()}")
                return event
        return -1

    def lift_cpu_rate(self) -> None:
        for directory in self._directories:
            for file, value in _NO_CPU_RATE.items():
                with contextlib.suppress(OSError):  # a file of the other version, or already gone
                    (directory / file).write_text(value)

    def kill(self) -> bool:
        """The whole tree at once; False where this kernel cannot."""
        for directory in self._directories:
            with contextlib.suppress(OSError):
                (directory / "cgroup.kill").write_text("1")
                return True
        return False

    def processes(self) -> list[int]:
        return [int(pid) for pid in (self._read("cgroup.procs") or "").split()]

    def _read(self, file: str) -> str | None:
        for directory in self._directories:
            with contextlib.suppress(OSError):
                return (directory / file).read_text()
        return None

    def _field(self, file: str, name: str) -> int | None:
        for line in (self._read(file) or "").splitlines():
            key, _, value = line.partition(" ")
            if key == name:
                return int(value)
        return None
