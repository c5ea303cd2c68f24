"""Limits of a process tree as a whole, and the kernel's own counters of it: cgroup v2, and v1 as older hosts have it.

The server finds the place (`locate`; what v2 asks of it is in `delegation`), the launcher makes, fills and removes the
directories (`groups`), the server reads the counters (`Counters`).
"""

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from executor.sandbox.native import cgroup_mounts, delegation
from executor.sandbox.native.cgroup_mounts import Mounted
from executor.sandbox.native.delegation import Place
from executor.sandbox.native.groups import GONE, NO_CPU_RATE
from executor.sandbox.native.plan import Hierarchy

WANTED = ("memory", "pids", "cpu")
"""Without these a sandbox is not limited."""
COUNTED = ("cpuacct",)
"""Only counts; on v2 `cpu` does."""
PREFIX = "executor-"
_PERIOD_US = 100_000


def limits(memory_bytes: int, processes: int, cpu_cores: float) -> tuple[tuple[str, str], ...]:
    """(file name, value), for both versions; a hierarchy takes those that it has. In the order of writing."""
    quota = max(1000, int(cpu_cores * _PERIOD_US))
    return (
        ("memory.limit_in_bytes", str(memory_bytes)),
        ("memory.memsw.limit_in_bytes", str(memory_bytes)),
        ("memory.max", str(memory_bytes)),
        ("memory.swap.max", "0"),
        ("memory.oom.group", "1"),
        ("pids.max", str(processes + 1)),  # and its init
        ("cpu.cfs_period_us", str(_PERIOD_US)),
        ("cpu.cfs_quota_us", str(quota)),
        ("cpu.max", f"{quota} {_PERIOD_US}"),
    )


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
            gone = gone and error.errno in GONE
    return gone


def remove_sandboxes(hierarchies: Iterable[Hierarchy]) -> None:
    """What a launcher that was killed left behind. A group with a living process in it refuses to go."""
    for hierarchy in hierarchies:
        for group in Path(hierarchy.base).glob("sandbox-*"):
            with contextlib.suppress(OSError):
                group.rmdir()


def group(number: int) -> str:
    """Name of a sandbox's directories."""
    return f"sandbox-{number}"


def remove_sandbox(hierarchies: Iterable[Hierarchy], number: int) -> None:
    """As far as a launcher that was killed has left it behind."""
    for hierarchy in hierarchies:
        with contextlib.suppress(OSError):
            Path(hierarchy.base, group(number)).rmdir()


# --- one sandbox's --------------------------------------------------------------------------------------------------

_COUNTERS = {
    "cpu": ("cpuacct.usage", "cpu.stat"),
    "memory": ("memory.max_usage_in_bytes", "memory.peak"),
    "processes": ("pids.peak",),
    "oom": ("memory.oom_control", "memory.events"),
    "refused": ("pids.events",),
}
"""What is counted -> the files that may tell: of v1, of v2."""
_COUNTER_BYTES = 4096


class CounterFiles:
    """Where a sandbox's counters are, which is found out with the first one."""

    def __init__(self, hierarchies: Iterable[Hierarchy]) -> None:
        self.bases = tuple(h.base for h in hierarchies)
        self._places: dict[str, tuple[str, str] | None] = {}

    def open(self, what: str, names: Sequence[str], group: str, flags: int) -> int:
        """-1 where this host does not have it."""
        if what not in self._places:
            self._places[what] = self._find(names, group)
        if (place := self._places[what]) is None:
            return -1
        try:
            return os.open(f"{place[0]}/{group}/{place[1]}", flags | os.O_CLOEXEC)
        except OSError:
            return -1

    def _find(self, names: Sequence[str], group: str) -> tuple[str, str] | None:
        found = ((base, name) for name in names for base in self.bases if Path(base, group, name).exists())
        return next(found, None)


class Counters:
    """The server's view of one sandbox's groups: what the kernel counted, None where this host does not count it; and
    what helps a tree to die. Its files are opened while the sandbox is made, so that they cost a call nothing.
    """

    def __init__(self, files: CounterFiles, group: str) -> None:
        self._places, self._group = files, group
        self._files = {what: files.open(what, names, group, os.O_RDONLY) for what, names in _COUNTERS.items()}
        self._cpu_before: float | None = None

    def begin(self) -> None:
        """What was used up to here is the price of making the sandbox, not its call's."""
        self._cpu_before = self._cpu()

    def cpu_seconds(self) -> float | None:
        spent = self._cpu()
        return None if spent is None else max(0.0, spent - (self._cpu_before or 0.0))

    def _cpu(self) -> float | None:
        text = self._read("cpu")
        if b" " not in text:  # cpuacct.usage is one number
            return int(text) / 1e9 if text else None
        usage = _field(text, b"usage_usec")
        return None if usage is None else usage / 1e6

    def peak_memory_bytes(self) -> int | None:
        text = self._read("memory")
        return int(text) if text else None

    def peak_processes(self) -> int | None:
        text = self._read("processes")
        return max(0, int(text) - 1) if text else None

    def oom_kills(self) -> int:
        return _field(self._read("oom"), b"oom_kill") or 0

    def pids_refused(self) -> int:
        return _field(self._read("refused"), b"max") or 0

    def oom_events(self) -> int:
        """An eventfd that becomes readable when memory runs out, on v1; -1 on v2, which kills the tree by itself."""
        control = self._places.open("events", ("cgroup.event_control",), self._group, os.O_WRONLY)
        if control < 0:
            return -1
        event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        try:
            os.write(control, b"%d %d" % (event, self._files["oom"]))
        except OSError:
            os.close(event)
            return -1
        finally:
            os.close(control)
        return event

    def lift_cpu_rate(self) -> None:
        for file, value in NO_CPU_RATE.items():
            if (fd := self._places.open(file, (file,), self._group, os.O_WRONLY)) >= 0:
                with contextlib.suppress(OSError):  # it is already gone
                    os.write(fd, value.encode())
                os.close(fd)

    def kill(self) -> bool:
        """The whole tree at once; False where this kernel cannot."""
        for directory in self._directories():
            with contextlib.suppress(OSError):
                Path(directory, "cgroup.kill").write_text("1")
                return True
        return False

    def processes(self) -> list[int]:
        for directory in self._directories():
            with contextlib.suppress(OSError):
                return [int(pid) for pid in Path(directory, "cgroup.procs").read_text().split()]
        return []

    def close(self) -> None:
        for fd in self._files.values():
            if fd >= 0:
                os.close(fd)
        self._files = dict.fromkeys(self._files, -1)

    def _directories(self) -> Iterator[str]:
        return (f"{base}/{self._group}" for base in self._places.bases)

    def _read(self, what: str) -> bytes:
        """Empty where nobody counts it, or the group is gone."""
        fd = self._files[what]
        if fd < 0:
            return b""
        try:
            return os.pread(fd, _COUNTER_BYTES, 0).rstrip()
        except OSError:
            return b""


def _field(text: bytes, name: bytes) -> int | None:
    for line in text.splitlines():
        key, _, value = line.partition(b" ")
        if key == name:
            return int(value)
    return None
