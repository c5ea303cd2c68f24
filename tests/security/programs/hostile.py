"""Means of the hostile programs, staged beside each of them: it runs inside the sandbox."""

import ctypes
import errno
import json
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
BAD_POINTER = 0x1000
"""Below the lowest address that may be mapped: EFAULT for a call that comes as far as to look."""


def given():
    """What the test passed in."""
    return json.loads(Path("given.json").read_text())


def show(answer):
    """What the test gets back."""
    print(json.dumps(answer))  # noqa: T201 - a program


def syscall(number, *arguments):
    """`done`, or the name of its errno."""
    ctypes.set_errno(0)
    if _libc.syscall(ctypes.c_long(number), *(_argument(argument) for argument in arguments)) >= 0:
        return "done"
    return name(ctypes.get_errno())


def tried(action, *arguments, **named):
    """`done`, or the name of the errno that `action` failed with."""
    try:
        action(*arguments, **named)
    except OSError as error:
        return name(error.errno)
    return "done"


def name(number):
    return errno.errorcode.get(number, str(number))


def _argument(value):
    return ctypes.c_long(value) if isinstance(value, int) else value
