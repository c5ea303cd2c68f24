"""Who a sandbox is: id maps, the one user inside, and no capability. Imported by the launcher: stdlib only."""

import os
from pathlib import Path

from executor.sandbox.native import syscalls

INNER_ID = 1000
"""The only uid and gid that exist inside."""


def map_ids(pid: int, outer_uid: int, outer_gid: int) -> None:
    """Called by the parent: gives the new user namespace of `pid` its one uid and gid."""
    process = Path("/proc") / str(pid)
    (process / "setgroups").write_text("deny")
    (process / "uid_map").write_text(f"{INNER_ID} {outer_uid} 1")
    (process / "gid_map").write_text(f"{INNER_ID} {outer_gid} 1")


def enter_own_user_namespace() -> None:
    """For an ordinary user: a user namespace in which this process may mount, with its own id and no other."""
    uid, gid = os.geteuid(), os.getegid()
    syscalls.unshare(syscalls.CLONE_NEWUSER)
    own = Path("/proc/self")
    (own / "setgroups").write_text("deny")
    (own / "uid_map").write_text(f"{uid} {uid} 1")
    (own / "gid_map").write_text(f"{gid} {gid} 1")


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


def become_inner_user() -> None:
    """Keeps the capabilities in the user namespace: they are needed to mount, and dropped later."""
    os.setresgid(INNER_ID, INNER_ID, INNER_ID)
    os.setresuid(INNER_ID, INNER_ID, INNER_ID)


def drop_capabilities() -> None:
    """All five sets: bounding, ambient, permitted, effective, inheritable."""
    capability = 0
    while syscalls.drop_bounding(capability):
        capability += 1
    syscalls.prctl(syscalls.PR_CAP_AMBIENT, syscalls.PR_CAP_AMBIENT_CLEAR_ALL)
    syscalls.clear_capabilities()


class IdPool:
    """Host ids for sandboxes: each running one has its own, never 0."""

    def __init__(self, first: int, count: int) -> None:
        self._free = list(range(first + count - 1, first - 1, -1))

    def take(self) -> int:
        if not self._free:
            raise OSError("no free host id is left for a sandbox: make the configured range larger")
        return self._free.pop()

    def give_back(self, uid: int) -> None:
        self._free.insert(0, uid)
