"""How a sandbox's tree is made to die: through its init, and where that is left no processor time, one by one.

Called by the sandbox, on the event loop. What proves that the tree is dead is the end of its init, which the kernel
reports only after all others are gone; a process that was missed here dies with it.
"""

import asyncio
import contextlib
import os
import signal

from executor.sandbox.native.cgroups import Counters

EXIT_SECONDS = 0.05
"""For a tree whose init has said that it ends."""
PATIENCE_SECONDS = 0.01
"""Most trees are gone by then. It is doubled each time."""


async def kill(pidfd: int, dead: "asyncio.Future[None]", group: Counters, *, at_once: bool) -> None:
    """Returns when the tree is dead. `pidfd` is its init's, and `dead` is done when that can be read. Not `at_once`:
    its init has said that it ends, and only where that takes long is it helped.
    """
    patience = PATIENCE_SECONDS
    if not at_once and not dead.done():
        await asyncio.wait((dead,), timeout=EXIT_SECONDS)
    if not dead.done():
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    while not dead.done():
        group.lift_cpu_rate()
        await asyncio.wait((dead,), timeout=patience)
        if not dead.done() and not group.kill():
            _kill_members(group)
        patience *= 2


def _kill_members(group: Counters) -> None:
    """By descriptor: what a second look still finds is what was opened, and no stranger with a number used again."""
    opened: dict[int, int] = {}
    for pid in group.processes():
        with contextlib.suppress(OSError):  # gone, or no descriptor left: then its init takes it along
            opened[pid] = os.pidfd_open(pid)
    try:
        for pid in group.processes():
            if pid in opened:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(opened[pid], signal.SIGKILL)
    finally:
        for fd in opened.values():
            os.close(fd)
