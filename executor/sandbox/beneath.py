"""Opens what lies below a directory's descriptor, and never anything else: no symbolic link, no mount, no way up.

With openat2 where the kernel has it; elsewhere name by name, where O_NOFOLLOW and the device number say the same but
for a mount of the same file system. Names come from listing a directory, so none is `..`. Knows nothing of what the
files are for.
"""

import ctypes
import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache

_SYS_OPENAT2 = 437  # the same on every architecture
_RESOLVE = 0x01 | 0x02 | 0x04 | 0x08  # NO_XDEV, NO_MAGICLINKS, NO_SYMLINKS, BENEATH
_AT_FDCWD = -100
_PATH_BYTES = 4000  # below PATH_MAX
_USABLE = stat.S_IRUSR | stat.S_IXUSR
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


def open_directory(names: Sequence[bytes], dir_fd: int) -> int:
    """The directory that `names` lead to from `dir_fd`, opened anew. Raises OSError.

    It is made usable where it is ours; those on the way must be usable already. Two descriptors at most are open at a
    time, however many names there are.
    """
    fd = _open(b".", dir_fd, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for step in _steps(names):
            inner = _open(step, fd, os.O_RDONLY | os.O_DIRECTORY)
            os.close(fd)
            fd = inner
        make_usable(fd)
    except OSError:
        os.close(fd)
        raise
    return fd


def _steps(names: Sequence[bytes]) -> Iterator[bytes]:
    """openat2 checks a whole path as strictly as a single name, so as much as the kernel takes goes into one."""
    step = b""
    for name in names:
        if step and (not has_openat2() or len(step) + len(name) >= _PATH_BYTES):
            yield step
            step = b""
        step = step + b"/" + name if step else name
    if step:
        yield step


def make_usable(fd: int) -> bool:
    """Gives a file or directory of our own, which a sandbox that is dead may have closed, the mode to be read.

    Whether it was one. `fd` may be an O_PATH descriptor.
    """
    facts = os.fstat(fd)
    ours = facts.st_uid == os.geteuid() and (stat.S_ISREG(facts.st_mode) or stat.S_ISDIR(facts.st_mode))
    if ours and facts.st_mode & _USABLE != _USABLE:
        os.chmod(f"/proc/self/fd/{fd}", stat.S_IRWXU)  # noqa: PTH101 - fchmod refuses an O_PATH descriptor
    return ours


def _open(name: bytes, dir_fd: int, flags: int) -> int:
    flags |= os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return _resolve(name, dir_fd, flags)
    except PermissionError:
        fd = _resolve(name, dir_fd, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if not make_usable(fd):
                raise
        finally:
            os.close(fd)
    return _resolve(name, dir_fd, flags)


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
