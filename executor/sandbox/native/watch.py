"""Waits on the event loop for what the kernel tells about a sandbox. Each ends only when the thing has happened."""

import asyncio
import os

from executor.model.limits import Limits
from executor.sandbox.native.cgroups import Counters

CPU_PERIOD_SECONDS = 0.1
"""Longest time that a tree can use its processor limit up without being seen."""


def readable(fd: int) -> "asyncio.Future[None]":
    """Done when `fd` can be read; for a pidfd that is when the process is gone. One wait per descriptor at a time."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()
    loop.add_reader(fd, _settle, future)
    future.add_done_callback(lambda _: loop.remove_reader(fd))
    return future


def _settle(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


async def cpu_spent(counters: Counters, limits: Limits) -> None:
    """Where this host does not count, the rlimit of each process and the wall limit are what holds."""
    while True:
        spent = counters.cpu_seconds()
        left = limits.cpu_seconds - (spent or 0.0)
        if left <= 0:
            return
        await asyncio.sleep(max(left / max(limits.cpu_cores, 1.0), CPU_PERIOD_SECONDS))


async def out_of_memory(counters: Counters) -> None:
    """On v1, where the kernel kills one process and leaves the rest; on v2 it kills the tree by itself."""
    event = counters.oom_events()
    if event < 0:
        await asyncio.get_running_loop().create_future()
    try:
        while not counters.oom_kills():
            await readable(event)
            os.eventfd_read(event)
    finally:
        os.close(event)
