"""Sandboxes made ahead of need, each for its one call. Knows when to make them; how is the backend's affair.

A call is given a parked sandbox only where everything that was fixed at its birth is what the call asks for; any other
call has one made on demand. Nobody ever waits for the pool.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from executor.model.errors import InvocationError
from executor.model.limits import Limits
from executor.model.run import SandboxSpec
from executor.sandbox.native.sandbox import NativeSandbox

MAX_CLASSES = 4
"""Kinds of sandboxes that are kept; the one that was not asked for longest goes first."""
_WATCHED = ("wall_seconds", "cpu_seconds", "output_bytes", "text_bytes", "artifact_count", "artifact_bytes")
"""Limits that the server watches while a call runs; a sandbox is not made for them."""


@dataclass(slots=True)
class _Class:
    spec: SandboxSpec
    parked: deque[NativeSandbox] = field(default_factory=deque)


def kind_of(spec: SandboxSpec) -> SandboxSpec:
    """Equal for two calls where a sandbox made for the one serves the other."""
    plain = Limits()
    return replace(spec, limits=replace(spec.limits, **{name: getattr(plain, name) for name in _WATCHED}))


class Pool:
    def __init__(self, make: Callable[[SandboxSpec], Awaitable[NativeSandbox]], size: int) -> None:
        """`size` sandboxes are kept of each class that was asked for lately; 0 keeps none."""
        self._make = make
        self._size = size
        self._classes: OrderedDict[SandboxSpec, _Class] = OrderedDict()
        self._lost: list[NativeSandbox] = []
        """To be closed: nobody will be given them."""
        self._work = asyncio.Event()
        self._filler: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._size:
            self._filler = asyncio.create_task(self._fill())

    def take(self, spec: SandboxSpec) -> NativeSandbox | None:
        """A parked sandbox, which is the caller's now; None where there is none for it."""
        kind = kind_of(spec)
        wanted = self._classes.setdefault(kind, _Class(kind))
        self._classes.move_to_end(kind)
        while wanted.parked:
            sandbox = wanted.parked.popleft()
            if sandbox.alive:
                return sandbox
            self._lost.append(sandbox)
        return None

    def refill(self) -> None:
        """Called when a sandbox is gone, so that making new ones does not slow the one that runs."""
        self._work.set()

    async def stop(self) -> None:
        """What is parked stays open, for the backend to close with the rest."""
        if self._filler:
            self._filler.cancel()
            await asyncio.wait((self._filler,))
            self._filler = None

    async def _fill(self) -> None:
        while True:
            await self._work.wait()
            self._work.clear()
            while self._lost:
                await self._lost.pop().close()
            while len(self._classes) > MAX_CLASSES:
                _, forgotten = self._classes.popitem(last=False)
                for sandbox in forgotten.parked:
                    await sandbox.close()
            for one in [*self._classes.values()]:
                await self._fill_class(one)

    async def _fill_class(self, wanted: _Class) -> None:
        try:
            while len(wanted.parked) < self._size:
                wanted.parked.append(await self._make(wanted.spec))
        except InvocationError:  # the call that asks next makes its own, and is told why it cannot
            self._classes.pop(wanted.spec, None)
            self._lost.extend(wanted.parked)
