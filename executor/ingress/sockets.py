"""Makes a Unix socket that only this user can reach, and takes one over only from a server that is gone."""

import fcntl
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from executor.model.errors import Misconfigured, Unavailable


@contextmanager
def only_ours(path: Path) -> Iterator[None]:
    """The block binds `path`; nobody else of this user does so meanwhile, and the socket is born with mode 0600.

    Raises Unavailable where somebody listens there, Misconfigured where something else is in the way.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise Misconfigured(f"The directory {path.parent} for the socket cannot be used: {error.strerror}.") from None
    try:
        _refuse_shared(directory, path.parent)
        _lock(directory, path)
        _remove_stale(path)
        before = os.umask(0o177)  # chmod after bind would leave a moment in which anybody connects
        try:
            yield
        finally:
            os.umask(before)
    finally:
        os.close(directory)


def remove(path: Path, inode: int) -> None:
    """Where it is still the one that we made."""
    try:
        if path.lstat().st_ino == inode:
            path.unlink()
    except FileNotFoundError:
        pass


def _refuse_shared(directory: int, path: Path) -> None:
    """Whoever may write to the directory could put a socket of their own in place of ours."""
    found = os.fstat(directory)
    sticky = bool(found.st_mode & stat.S_ISVTX)
    if found.st_uid not in {0, os.getuid()} or (found.st_mode & 0o002 and not sticky):
        raise Misconfigured(f"The directory {path} belongs to or is open to other users: name an address elsewhere.")


def _lock(directory: int, path: Path) -> None:
    try:
        fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Unavailable(f"Another server is just starting at {path}: use that one, or another address.") from None


def _remove_stale(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise Misconfigured(f"{path} exists and is not a socket: name another address, or remove it.")
    if _somebody_listens(path):
        raise Unavailable(f"Another server listens at {path}: use that one, or another address.")
    path.unlink()


def _somebody_listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return False
        except OSError:  # such as a full backlog, or another user's: not ours to remove
            return True
    return True
