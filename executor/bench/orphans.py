"""Processes whose parent ended before them come to us, so that their processor time is counted, and are waited for.

bwrap leaves such a one with every call: the first process of its pid namespace.
"""

import contextlib
import os

from executor.sandbox.native import syscalls

_PR_SET_CHILD_SUBREAPER = 36


def adopt() -> None:
    syscalls.prctl(_PR_SET_CHILD_SUBREAPER, 1)


def reap() -> int:
    """How many had ended. Only while nobody waits for a child of this process that is about to end."""
    count = 0
    with contextlib.suppress(ChildProcessError):
        while os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG):
            count += 1
    return count
