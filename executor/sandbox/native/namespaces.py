"""What a sandbox has of its own, beside its files. Imported by the launcher: builtin modules and ctypes only."""

import _signal  # type: ignore[import-not-found]  # `signal` loads `enum`
import _socket
import fcntl
import os

from executor.sandbox.native import syscalls

OWN = (
    syscalls.CLONE_NEWUSER
    | syscalls.CLONE_NEWNS
    | syscalls.CLONE_NEWPID
    | syscalls.CLONE_NEWIPC
    | syscalls.CLONE_NEWUTS
)
"""At birth, beside the time namespace of a kernel that has one. The network namespace is entered before (`Networks`);
the cgroup namespace follows once the sandbox is in its cgroup, because it begins where one is.
"""
ALL = OWN | syscalls.CLONE_NEWNET

_SIOCSIFFLAGS = 0x8914
_INTERFACE_UP = b"lo".ljust(16, b"\0") + b"\x41\0" + bytes(22)  # struct ifreq: IFF_UP | IFF_RUNNING
_TRACES = ("dev", "snmp", "snmp6", "unix")
"""Of /proc/net: packets, what each protocol counted, and sockets that outlive the process that made them."""
KEPT_NETWORKS = 64


def own_of_this_kernel() -> int:
    return OWN | (syscalls.CLONE_NEWTIME if os.path.exists("/proc/self/ns/time") else 0)  # noqa: PTH110


def hold_mounts(pid: int) -> int:
    """A descriptor of the mount namespace of a child that waits. While it is open the end of the child does not have to
    wait until its mounts are gone: that is done when it is closed.
    """
    return os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)


def die_with_parent() -> None:
    """After the ids were set: the kernel forgets this when they change."""
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, _signal.SIGKILL)


def name_host() -> None:
    _socket.sethostname("sandbox")


def loopback_up() -> None:
    control = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    try:
        fcntl.ioctl(control.fileno(), _SIOCSIFFLAGS, _INTERFACE_UP)
    finally:
        control.close()


def hide_cgroup() -> None:
    syscalls.unshare(syscalls.CLONE_NEWCGROUP)


class Network:
    """A network namespace with a loopback that is up, and nothing else."""

    def __init__(self) -> None:
        """From here on the caller is in it. Raises OSError."""
        syscalls.unshare(syscalls.CLONE_NEWNET)
        loopback_up()
        self._namespace = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        self._new = _traces()

    def enter(self) -> None:
        syscalls.enter(self._namespace, syscalls.CLONE_NEWNET)

    def is_as_new(self) -> bool:
        """Called in it, when no process of the sandbox lives: nobody sent a packet, tried to, or left a socket."""
        return _traces() == self._new

    def close(self) -> None:
        os.close(self._namespace)


class Networks:
    """Network namespaces cost half a millisecond to make and more to clear away, so one in which the last sandbox
    left no trace serves the next one. One sandbox at a time; the sandbox has no capability over it.
    """

    def __init__(self) -> None:
        """The caller gets an empty network of its own, in which it is at home. Raises OSError."""
        syscalls.unshare(syscalls.CLONE_NEWNET)
        self._kept: list[Network] = []
        self._home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)

    def enter(self) -> Network:
        """The caller is in it, and what it gives birth to, until it goes `home`. Raises OSError."""
        if not self._kept:
            return Network()
        network = self._kept.pop()
        network.enter()
        return network

    def home(self) -> None:
        """A socket belongs to the network in which it is made, and all who are in there see it."""
        syscalls.enter(self._home, syscalls.CLONE_NEWNET)

    def give_back(self, network: Network) -> None:
        network.enter()
        if len(self._kept) < KEPT_NETWORKS and network.is_as_new():
            self._kept.append(network)
        else:
            network.close()
        self.home()


def _traces() -> bytes:
    return b"".join(_read(f"/proc/thread-self/net/{name}") for name in _TRACES)


def _read(path: str) -> bytes:
    """Empty where this kernel has no such protocol."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return b""
    try:
        return os.read(fd, 65536)  # what does not fit begins with what differs
    finally:
        os.close(fd)
