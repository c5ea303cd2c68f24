"""The directory of an output store: what lies where, reached by descriptor only. Synchronous; no time, no quota.

`root/<hash of the tenant>/<name>` is what is stored. What is being written lies in `root/tmp-<random>`, which its
process keeps locked: whoever opens the root later removes those whose process is gone. Several processes may share it.
"""

import fcntl
import hashlib
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from executor.model.errors import Unavailable

_TEMPORARY = "tmp-"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Stored(NamedTuple):
    """Sorts by age, oldest first."""

    time_ns: int
    directory: str
    name: str
    size_bytes: int


class StoreDirectory:
    """Between `open` and `close`; outside of that its methods raise Unavailable. Names are checked by the caller."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._root_fd = self._temporary_fd = -1
        self._temporary_name = ""

    def open(self) -> None:
        """Raises Unavailable, with what the operator is to do."""
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._root_fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            self._make_private()
            self._temporary_name, self._temporary_fd = self._own_temporary()
            self._remove_abandoned()
        except OSError as error:
            self.close()
            raise Unavailable(
                f"The output store {self.root} cannot be used: {error.strerror}. Give a directory that belongs to the "
                "user who runs the service."
            ) from error
        except Unavailable:
            self.close()
            raise

    def close(self) -> None:
        """Idempotent. What is still being written is removed."""
        if self._temporary_fd >= 0:
            self._remove_temporary_directory(self._temporary_name, self._temporary_fd)
            os.close(self._temporary_fd)
        if self._root_fd >= 0:
            os.close(self._root_fd)
        self._root_fd = self._temporary_fd = -1

    def create_temporary(self, name: str) -> int:
        return os.open(name, _CREATE, 0o600, dir_fd=self._checked(self._temporary_fd))

    def remove_temporary(self, name: str) -> None:
        """Does nothing where there is none."""
        if self._temporary_fd >= 0:
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=self._temporary_fd)

    def publish(self, name: str, tenant: str) -> None:
        """The temporary file becomes one of the tenant's, all at once."""
        directory = _directory_of(tenant)
        with suppress(FileExistsError):
            os.mkdir(directory, 0o700, dir_fd=self._checked(self._root_fd))
        with self._directory(directory) as fd:
            os.rename(name, name, src_dir_fd=self._checked(self._temporary_fd), dst_dir_fd=fd)

    def open_stored(self, name: str, tenant: str) -> tuple[int, os.stat_result]:
        """Raises FileNotFoundError for what is absent, and for anything but a regular file."""
        with self._directory(_directory_of(tenant)) as directory_fd:
            fd = os.open(name, _READ, dir_fd=directory_fd)
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode):
            os.close(fd)
            raise FileNotFoundError(name)
        return fd, facts

    def stored(self) -> Iterator[Stored]:
        for directory in _names(self._checked(self._root_fd)):
            if not directory.startswith(_TEMPORARY):
                with self._directory(directory) as fd:
                    yield from _stored_in(directory, fd)

    def remove(self, stored: Stored) -> None:
        with suppress(FileNotFoundError), self._directory(stored.directory) as fd:
            os.unlink(stored.name, dir_fd=fd)

    def _checked(self, fd: int) -> int:
        if fd < 0:
            raise Unavailable(f"The output store {self.root} is not started.")
        return fd

    @contextmanager
    def _directory(self, name: str) -> Iterator[int]:
        fd = os.open(name, _DIRECTORY, dir_fd=self._checked(self._root_fd))
        try:
            yield fd
        finally:
            os.close(fd)

    def _make_private(self) -> None:
        mode = stat.S_IMODE(os.fstat(self._root_fd).st_mode)
        if not mode & 0o077:
            return
        if _names(self._root_fd):  # it may be somebody's, such as /tmp: not ours to close
            raise Unavailable(
                f"The output store {self.root} is open to other users (mode {mode:04o}) and not empty: run "
                f"`chmod 700 {self.root}` if it is the service's own, or give another directory."
            )
        os.fchmod(self._root_fd, 0o700)

    def _own_temporary(self) -> tuple[str, int]:
        while True:
            name = _TEMPORARY + secrets.token_hex(8)
            os.mkdir(name, 0o700, dir_fd=self._root_fd)
            if (fd := self._lock(name)) is not None:
                return name, fd

    def _lock(self, name: str) -> int | None:
        """Its descriptor, or None where its process lives, or where another was quicker to remove it."""
        try:
            fd = os.open(name, _DIRECTORY, dir_fd=self._root_fd)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.stat(name, dir_fd=self._root_fd, follow_symlinks=False)
        except (BlockingIOError, FileNotFoundError):
            os.close(fd)
            return None
        return fd

    def _remove_abandoned(self) -> None:
        for name in _names(self._root_fd):
            if name.startswith(_TEMPORARY) and name != self._temporary_name and (fd := self._lock(name)) is not None:
                self._remove_temporary_directory(name, fd)
                os.close(fd)

    def _remove_temporary_directory(self, name: str, fd: int) -> None:
        for file in _names(fd):
            os.unlink(file, dir_fd=fd)
        os.rmdir(name, dir_fd=self._root_fd)


def _directory_of(tenant: str) -> str:
    return hashlib.sha256(tenant.encode("utf-8", "surrogatepass")).hexdigest()[:40]


def _names(fd: int) -> list[str]:
    with os.scandir(fd) as entries:
        return [entry.name for entry in entries]


def _stored_in(directory: str, fd: int) -> Iterator[Stored]:
    for name in _names(fd):
        with suppress(FileNotFoundError):  # another process removes too
            facts = os.stat(name, dir_fd=fd, follow_symlinks=False)
            yield Stored(facts.st_mtime_ns, directory, name, facts.st_size)
