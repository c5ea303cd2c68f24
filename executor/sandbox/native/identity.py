"""Who a sandbox is: id maps, the one user inside, and no capability. Imported by the launcher: builtin modules and
ctypes only.
"""

import os
from _collections import deque  # type: ignore[import-not-found]  # `collections` loads much

from executor.sandbox.native import syscalls

INNER_ID = 1000
"""The only uid and gid that exist inside."""


def map_ids(pid: int | str, uid_map: str, gid_map: str) -> None:
    """Called by the parent: gives the new user namespace of `pid` its ids."""
    for name, text in (("setgroups", "deny"), ("uid_map", uid_map), ("gid_map", gid_map)):
        fd = os.open(f"/proc/{pid}/{name}", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)


def one(inner: int, outer: int) -> str:
    """A map of a single id."""
    return f"{inner} {outer} 1"


def enter_own_user_namespace() -> None:
    """For an ordinary user: a user namespace in which this process may mount, with its own id and no other."""
    uid, gid = os.geteuid(), os.getegid()
    syscalls.unshare(syscalls.CLONE_NEWUSER)
    map_ids("self", one(uid, uid), one(gid, gid))


def keep_capabilities() -> None:
    """From here on this process, which is root, does not lose them while its effective uid is another's."""
    syscalls.prctl(syscalls.PR_SET_SECUREBITS, syscalls.SECBIT_NO_SETUID_FIXUP)


def clone_as(uid: int, flags: int, exit_signal: int, cgroup: int) -> tuple[int, int]:
    """As `syscalls.clone`, with namespaces that belong to `uid`, by a process that keeps its capabilities.

    The kernel counts inotify instances, pending signals and the like also against the owner of a user namespace. One
    owner for all would let one sandbox use them up for the others, and for the host's root.
    """
    own = os.geteuid()
    os.seteuid(uid)
    pid = -1
    try:
        pid, pidfd = syscalls.clone(flags, exit_signal, cgroup)
    finally:
        if pid:  # in the child our own uid does not exist any more
            os.seteuid(own)
    return pid, pidfd


def become(uid: int, gid: int) -> None:
    """Keeps the capabilities in the user namespace: they are needed to mount, and dropped later."""
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def drop_capabilities() -> None:
    """All five sets: bounding, ambient, permitted, effective, inheritable."""
    syscalls.drop_bounding_set()
    syscalls.prctl(syscalls.PR_CAP_AMBIENT, syscalls.PR_CAP_AMBIENT_CLEAR_ALL)
    syscalls.clear_capabilities()


class IdPool:
    """Host ids for sandboxes: each running one has its own, never 0. One that is free again serves before a fresh
    one, the one that is free the longest first.
    """

    def __init__(self, first: int, count: int) -> None:
        self._fresh, self._end = first, first + count
        self._free: deque[int] = deque()

    def take(self) -> int:
        if self._free:
            return int(self._free.popleft())
        if self._fresh == self._end:
            raise OSError("no free host id is left for a sandbox: make the configured range larger")
        self._fresh += 1
        return self._fresh - 1

    def give_back(self, uid: int) -> None:
        self._free.append(uid)
