"""Opens one name below a directory's descriptor, and never anything else: no symbolic link, no mount, no way up.

With openat2 where the kernel has it; elsewhere, names being single, O_NOFOLLOW and the device number say the same but
for a mount of the same file system. Knows nothing of what the files are for.
"""

import ctypes
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache

_SYS_OPENAT2 = 437  # the same on every architecture
_RESOLVE = 0x01 | 0x02 | 0x04 | 0x08  # NO_XDEV, NO_MAGICLINKS, NO_SYMLINKS, BENEATH
_AT_FDCWD = -100
_READABLE = 0o500
_REASONS = {
    errno.EACCES: "no permission",
    errno.EPERM: "no permission",
    errno.ELOOP: "symbolic link",
    errno.EXDEV: "on another file system",
    errno.ENOENT: "gone",
}


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def reason(error: OSError) -> str:
    """Why something could not be opened, in words."""
    return _REASONS.get(error.errno or 0) or error.strerror or "cannot be read"


@contextmanager
def opened(name: bytes, dir_fd: int, flags: int) -> Iterator[int]:
    fd = _open(name, dir_fd, flags)
    try:
        yield fd
    finally:
        os.close(fd)


def open_directory(name: bytes, dir_fd: int) -> int:
    """Readable and searchable where it is ours to make it so. Raises OSError."""
    fd = _open(name, dir_fd, os.O_RDONLY | os.O_DIRECTORY)
    if os.fstat(fd).st_mode & _READABLE != _READABLE:
        with suppress(PermissionError):
            os.fchmod(fd, stat.S_IRWXU)
    return fd


def _open(name: bytes, dir_fd: int, flags: int) -> int:
    flags |= os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return _resolve(name, dir_fd, flags)
    except PermissionError:
        if not _permit(name, dir_fd):
            raise
    return _resolve(name, dir_fd, flags)


def _permit(name: bytes, dir_fd: int) -> bool:
    """Whether it is a file or directory of our own, and its mode has been mended. The sandbox that set it is dead."""
    fd = _resolve(name, dir_fd, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        facts = os.fstat(fd)
        ours = facts.st_uid == os.geteuid() and (stat.S_ISREG(facts.st_mode) or stat.S_ISDIR(facts.st_mode))
        if ours:
            os.chmod(f"/proc/self/fd/{fd}", stat.S_IRWXU)  # noqa: PTH101 - a descriptor without the right to fchmod
        return ours
    finally:
        os.close(fd)


def _resolve(name: bytes, dir_fd: int, flags: int) -> int:
    if has_openat2():
        return _openat2(name, dir_fd, flags)
    fd = os.open(name, flags, dir_fd=dir_fd)
    if os.fstat(fd).st_dev != os.fstat(dir_fd).st_dev:
        os.close(fd)
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
    return fd


@cache
def has_openat2() -> bool:
    """Tried, not guessed: an older seccomp profile refuses it on a kernel that has it."""
    try:
        os.close(_openat2(b".", _AT_FDCWD, os.O_PATH | os.O_CLOEXEC))
    except OSError:
        return False
    return True


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _openat2(name: bytes, dir_fd: int, flags: int) -> int:
    how = _OpenHow(flags, 0, _RESOLVE)
    while True:
        fd: int = _libc().syscall(
            ctypes.c_long(_SYS_OPENAT2),
            ctypes.c_long(dir_fd),
            ctypes.c_char_p(name),
            ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )
        if fd >= 0:
            return fd
        number = ctypes.get_errno()
        if number not in {errno.EAGAIN, errno.EINTR}:  # a rename elsewhere on the host got in the way
            raise OSError(number, os.strerror(number))
