"""What a sandbox has of its own, beside its files. Imported by the launcher: stdlib only."""

import fcntl
import os
import signal
import socket
import struct

from executor.sandbox.native import syscalls

ALL = (
    syscalls.CLONE_NEWUSER
    | syscalls.CLONE_NEWNS
    | syscalls.CLONE_NEWPID
    | syscalls.CLONE_NEWNET
    | syscalls.CLONE_NEWIPC
    | syscalls.CLONE_NEWUTS
)
"""At birth, beside the time namespace of a kernel that has one. The cgroup namespace follows once the sandbox is in its
cgroup, because it begins where one is.
"""

_SIOCSIFFLAGS = 0x8914
_IFF_UP_RUNNING = 0x1 | 0x40


def all_of_this_kernel() -> int:
    return ALL | (syscalls.CLONE_NEWTIME if os.path.exists("/proc/self/ns/time") else 0)  # noqa: PTH110


def die_with_parent() -> None:
    """After the ids were set: the kernel forgets this when they change."""
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)


def name_host() -> None:
    socket.sethostname("sandbox")


def loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", _IFF_UP_RUNNING))


def hide_cgroup() -> None:
    syscalls.unshare(syscalls.CLONE_NEWCGROUP)
