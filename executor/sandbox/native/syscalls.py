"""The system calls that the standard library does not offer, by number, through libc.

Each raises OSError with the name of the call; numbers are those of x86_64 and aarch64. Imported by the launcher:
builtin modules and ctypes only.
"""

import ctypes
import os

_libc = ctypes.PyDLL(None, use_errno=True)  # without the dance of releasing the lock, which no other thread wants
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long
_mount = _libc.mount
_mount.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p)
_prctl = _libc.prctl
_prctl.argtypes = (ctypes.c_int, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong)
_umount2, _unshare, _setns = _libc.umount2, _libc.unshare, _libc.setns  # found once, not in every sandbox again
_CapabilityHeader, _CapabilityData, _Action = ctypes.c_uint32 * 2, ctypes.c_uint32 * 6, ctypes.c_uint64 * 4

_X86_64 = {"pivot_root": 155, "seccomp": 317, "capset": 126, "rt_sigaction": 13}
_AARCH64 = {"pivot_root": 41, "seccomp": 277, "capset": 91, "rt_sigaction": 134}
NUMBERS = {"x86_64": _X86_64, "aarch64": _AARCH64}.get(os.uname().machine, {}) | {
    "clone3": 435,
    "close_range": 436,
    "mount_setattr": 442,
}

CLONE_NEWTIME = 0x00000080
CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
CLONE_PIDFD = 0x00001000
CLONE_INTO_CGROUP = 0x200000000

MS_RDONLY = 1
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_REMOUNT = 32
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
MNT_DETACH = 2

AT_FDCWD = -100
AT_RECURSIVE = 0x8000
MOUNT_ATTR_RDONLY = 1
MOUNT_ATTR_NOSUID = 2
MOUNT_ATTR_NODEV = 4
MOUNT_ATTR_NOEXEC = 8

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_NAME = 15
PR_CAPBSET_DROP = 24
PR_SET_SECUREBITS = 28
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4
SECBIT_NO_SETUID_FIXUP = 1 << 2
SECCOMP_SET_MODE_FILTER = 1
_SIG_IGN = 1


class CloneArgs(ctypes.Structure):
    """struct clone_args of linux/sched.h."""

    _fields_ = tuple(
        (name, ctypes.c_uint64)
        for name in (
            "flags",
            "pidfd",
            "child_tid",
            "parent_tid",
            "exit_signal",
            "stack",
            "stack_size",
            "tls",
            "set_tid",
            "set_tid_size",
            "cgroup",
        )
    )


class _MountAttr(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("attr_set", "attr_clr", "propagation", "userns_fd"))


class _SockFprog(ctypes.Structure):
    _fields_ = (("len", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def _checked(result: int, call: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")
    return result


def mount_words(source: bytes, target: bytes, kind: bytes | None, flags: int, data: bytes | None) -> None:
    if _mount(source, target, kind, flags, data):
        _checked(-1, f"mount {kind.decode() if kind else 'bind'} on {target.decode(errors='replace')}")


def mount(source: str, target: str, kind: str | None, flags: int, data: str = "") -> None:
    mount_words(
        os.fsencode(source),
        os.fsencode(target),
        kind.encode() if kind else None,
        flags,
        data.encode() if data else None,
    )


def unmount(target: str, flags: int) -> None:
    _checked(_umount2(os.fsencode(target), flags), f"umount2 {target}")


def make_read_only(path: str, attributes: int = MOUNT_ATTR_NODEV, *, recursive: bool = True) -> None:
    """Adds read-only, nosuid and `attributes` to a mount, and to those below it, and takes nothing away."""
    change = _MountAttr(attr_set=MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | attributes)
    result = _syscall(
        NUMBERS["mount_setattr"],
        AT_FDCWD,
        os.fsencode(path),
        AT_RECURSIVE if recursive else 0,
        ctypes.byref(change),
        ctypes.sizeof(change),
    )
    _checked(result, f"mount_setattr {path}")


def pivot_root(new_root: str, put_old: str) -> None:
    _checked(_syscall(NUMBERS["pivot_root"], os.fsencode(new_root), os.fsencode(put_old)), "pivot_root")


def unshare(flags: int) -> None:
    _checked(_unshare(flags), f"unshare {flags:#x}")


def enter(namespace: int, kind: int) -> None:
    """`namespace`: a descriptor of one; `kind`: its CLONE_NEW flag."""
    _checked(_setns(namespace, kind), f"setns {kind:#x}")


def clone(flags: int, exit_signal: int, cgroup: int = -1) -> tuple[int, int]:
    """(pid, pidfd) in the parent, (0, -1) in the child. Like fork, but runs none of Python's after-fork hooks: for a
    single-threaded caller only.
    """
    pidfd = ctypes.c_int(-1)
    arguments = CloneArgs(flags=flags | CLONE_PIDFD, pidfd=ctypes.addressof(pidfd), exit_signal=exit_signal)
    if cgroup >= 0:
        arguments.flags |= CLONE_INTO_CGROUP
        arguments.cgroup = cgroup
    pid = _checked(_syscall(NUMBERS["clone3"], ctypes.byref(arguments), ctypes.sizeof(arguments)), "clone3")
    return (pid, pidfd.value) if pid else (0, -1)


def prctl(option: int, value: int = 0, third: int = 0) -> None:
    _checked(_prctl(option, value, third, 0, 0), f"prctl {option}")


def name_process(name: bytes) -> None:
    """As `ps` shows it; at most 15 bytes."""
    text = ctypes.create_string_buffer(name, len(name) + 1)
    prctl(PR_SET_NAME, ctypes.addressof(text))


def trim_memory() -> None:
    """Gives the kernel back what libc keeps for later, where libc can."""
    if hasattr(_libc, "malloc_trim"):
        _libc.malloc_trim(0)


def drop_bounding_set() -> None:
    """Every capability that this kernel has."""
    capability = 0
    while not _prctl(PR_CAPBSET_DROP, capability, 0, 0, 0):
        capability += 1


def clear_capabilities() -> None:
    header = _CapabilityHeader(0x20080522, 0)
    nothing = _CapabilityData()
    _checked(_syscall(NUMBERS["capset"], ctypes.byref(header), ctypes.byref(nothing)), "capset")


def load_seccomp(program: bytes) -> None:
    """`program`: struct sock_filter[], eight bytes each."""
    start = ctypes.cast(ctypes.c_char_p(program), ctypes.c_void_p)
    description = _SockFprog(len=len(program) // 8, filter=start)
    _checked(_syscall(NUMBERS["seccomp"], SECCOMP_SET_MODE_FILTER, 0, ctypes.byref(description)), "seccomp")


def call(number: int, *arguments: int) -> int:
    """A system call with plain numbers, for those that only ask; -1 where it fails."""
    return int(_syscall(number, *(ctypes.c_long(argument) for argument in arguments)))


def ignore(signal: int) -> None:
    """For those that libc keeps for itself, and does not let anybody set. Raises OSError."""
    action = _Action(_SIG_IGN, 0, 0, 0)
    _checked(_syscall(NUMBERS["rt_sigaction"], signal, ctypes.byref(action), None, 8), "rt_sigaction")


def close_range(first: int, last: int) -> None:
    _checked(_syscall(NUMBERS["close_range"], first, last, 0), "close_range")
