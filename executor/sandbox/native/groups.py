"""The cgroup directories of sandboxes, as the launcher makes, fills and removes them. Builtin modules only."""

import errno
import os

TYPE_CHECKING = False  # `typing` would cost each sandbox memory
if TYPE_CHECKING:
    from collections.abc import Iterable

    from executor.sandbox.native.plan import Hierarchy

NO_CPU_RATE = {"cpu.cfs_quota_us": "-1", "cpu.max": "max"}
"""For a tree that is killed: to die takes processor time too, and under its quota that could be seconds."""
GONE = (errno.ENOENT, errno.ESRCH)


class OpenHierarchy:
    """A hierarchy by descriptor, because the launcher leaves the host's file system behind."""

    def __init__(self, hierarchy: "Hierarchy") -> None:
        self.version = hierarchy.version
        self.directory = os.open(hierarchy.base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.lacks: set[str] = set()
        """Files of the other version, or of another controller; known once they were asked for."""


class Cgroup:
    """The directories of one sandbox, one in each hierarchy."""

    def __init__(self, hierarchies: "Iterable[OpenHierarchy]", name: str) -> None:
        self._hierarchies = tuple(hierarchies)
        self._name = name

    def make(self, values: "Iterable[tuple[str, str]]") -> None:
        for hierarchy in self._hierarchies:
            os.mkdir(self._name, 0o755, dir_fd=hierarchy.directory)
            for file, value in values:
                self._write(hierarchy, file, value)

    def into(self) -> int:
        """A descriptor for CLONE_INTO_CGROUP, or -1 where there is only v1."""
        for hierarchy in self._hierarchies:
            if hierarchy.version == 2:  # noqa: PLR2004
                return os.open(self._name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=hierarchy.directory)
        return -1

    def attach(self, pid: int, *, also_v2: bool) -> None:
        """`also_v2`: for a process that was not born into its group."""
        for hierarchy in self._hierarchies:
            if hierarchy.version == 1 or also_v2:
                self._write(hierarchy, "cgroup.procs", str(pid))

    def lift_cpu_rate(self) -> None:
        for hierarchy in self._hierarchies:
            for file, value in NO_CPU_RATE.items():
                try:
                    self._write(hierarchy, file, value)
                except OSError:
                    continue  # it is gone

    def remove(self) -> bool:
        """False where a process is still on its way out."""
        gone = True
        for hierarchy in self._hierarchies:
            try:
                os.rmdir(self._name, dir_fd=hierarchy.directory)
            except OSError as error:
                gone = gone and error.errno in GONE
        return gone

    def _write(self, hierarchy: OpenHierarchy, file: str, value: str) -> None:
        if file in hierarchy.lacks:
            return
        try:
            fd = os.open(f"{self._name}/{file}", os.O_WRONLY | os.O_CLOEXEC, dir_fd=hierarchy.directory)
        except FileNotFoundError:
            if not self._exists(hierarchy):
                raise
            hierarchy.lacks.add(file)
            return
        try:
            os.write(fd, value.encode())
        finally:
            os.close(fd)

    def _exists(self, hierarchy: OpenHierarchy) -> bool:
        try:
            os.stat(self._name, dir_fd=hierarchy.directory)
        except FileNotFoundError:
            return False
        return True
