"""Sandboxes made ahead of need, each for its one call. Knows when to make them; how is the backend's affair.

A call is given a parked sandbox only where everything that was fixed at its birth is what the call asks for; any other
call has one made on demand. Nobody ever waits for the pool.
"""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache

import psutil

from executor.model.errors import InvocationError
from executor.model.limits import Limits
from executor.model.run import SandboxSpec
from executor.sandbox.native.sandbox import NativeSandbox

MAX_CLASSES = 8
"""Kinds of sandboxes that are kept; the one that was not asked for longest goes first."""
WINDOW_SECONDS = 10.0
"""How long a demand is remembered, at least; at most twice as long."""
MEMORY_RESERVE = 0.1
"""Part of the host's memory; with less available nothing is kept."""
_PRESSURE_SECONDS = 1.0
_WATCHED = ("wall_seconds", "cpu_seconds", "output_bytes", "text_bytes", "artifact_count", "artifact_bytes")
"""Limits that the server watches while a call runs; a sandbox is not made for them."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Equal for two calls where a sandbox made for the one serves the other."""

    spec: SandboxSpec
    template: str = ""
    """Of the image; empty for a sandbox that executes its program."""

    @staticmethod
    @lru_cache(maxsize=256)
    def of(spec: SandboxSpec, template: str = "") -> "Kind":
        plain = Limits()
        limits = replace(spec.limits, **{name: getattr(plain, name) for name in _WATCHED})
        return Kind(replace(spec, limits=limits), template)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSettings:
    least: int = 4
    """Kept of each kind that was asked for lately."""
    most: int = 32
    """Kept in all; 0 keeps none, and every sandbox is made on demand."""
    refill_per_second: float = 400.0
    """Made ahead at most, so that a refill takes a known share of a core."""


@dataclass(slots=True)
class _Class:
    kind: Kind
    parked: deque[NativeSandbox] = field(default_factory=deque)
    making: int = 0
    in_use: int = 0
    peaks: list[int] = field(default_factory=lambda: [0, 0])
    """Most in use at one time: in this window, and in the one before."""

    def taken(self) -> None:
        self.in_use += 1
        self.peaks[0] = max(self.peaks[0], self.in_use)


def memory_is_short() -> bool:
    memory = psutil.virtual_memory()
    return bool(memory.available < MEMORY_RESERVE * memory.total)


class Pool:
    def __init__(
        self,
        make: Callable[[Kind], Awaitable[NativeSandbox]],
        settings: PoolSettings,
        *,
        makers: int = 1,
        short: Callable[[], bool] = memory_is_short,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`makers`: how many may be made at one time while nothing else runs; `short`: of memory."""
        self._make, self._settings, self._makers = make, settings, makers
        self._short, self._clock = short, clock
        self._classes: OrderedDict[Kind, _Class] = OrderedDict()
        self._lost: list[NativeSandbox] = []
        """To be closed: nobody will be given them."""
        self._work = asyncio.Event()
        self._making: set[asyncio.Task[None]] = set()
        self._filler: asyncio.Task[None] | None = None
        self._window = self._looked = clock()
        self._is_short = False
        self._next_start = 0.0

    def start(self) -> None:
        if self._settings.most:
            self._filler = asyncio.create_task(self._fill())

    def expect(self, kinds: Iterable[Kind]) -> None:
        """Calls of these are to come: the first ones get a parked sandbox too."""
        for kind in kinds:
            self._class(kind)
        self._work.set()

    def take(self, kind: Kind) -> NativeSandbox | None:
        """A parked sandbox, which is the caller's now; None where there is none for it. `given_back` must follow."""
        wanted = self._class(kind)
        wanted.taken()
        while wanted.parked:
            sandbox = wanted.parked.popleft()
            if sandbox.alive:
                return sandbox
            self._lost.append(sandbox)
        return None

    def given_back(self, kind: Kind) -> None:
        """The sandbox of a call is gone: time to make new ones, which would have slowed the call while it ran."""
        if (one := self._classes.get(kind)) is not None and one.in_use:
            one.in_use -= 1
        self._work.set()

    @property
    def parked(self) -> int:
        return sum(len(one.parked) for one in self._classes.values())

    async def stop(self) -> None:
        """What is parked stays open, for the backend to close with the rest."""
        if self._filler:
            self._filler.cancel()
            await asyncio.wait((self._filler,))
            self._filler = None
        if self._making:
            await asyncio.wait(self._making)

    # --- what is to be done -----------------------------------------------------------------------------------------

    def _class(self, kind: Kind) -> _Class:
        one = self._classes.setdefault(kind, _Class(kind))
        self._classes.move_to_end(kind)
        return one

    def _target(self, one: _Class) -> int:
        """As many as were in use at one time lately, within bounds that leave the least to every other kind."""
        if self._is_short:
            return 0
        least, others = self._settings.least, len(self._classes) - 1
        return min(max(least, *one.peaks), max(least, self._settings.most - others * least), self._settings.most)

    def _look(self) -> None:
        """What changes with time."""
        now = self._clock()
        if now - self._window >= WINDOW_SECONDS:
            self._window = now
            for one in self._classes.values():
                one.peaks = [one.in_use, one.peaks[0]]
        if now - self._looked >= _PRESSURE_SECONDS:
            self._looked = now
            self._is_short = self._short()

    def _next(self) -> _Class | None:
        """The kind that lacks most; None where none lacks any, or there is no room or no leave to make one."""
        if self.parked + len(self._making) >= self._settings.most or len(self._making) >= self._at_one_time():
            return None
        lacking = {kind: self._target(one) - len(one.parked) - one.making for kind, one in self._classes.items()}
        kind = max(lacking, key=lambda kind: lacking[kind], default=None)
        return self._classes[kind] if kind is not None and lacking[kind] > 0 else None

    def _at_one_time(self) -> int:
        """A refill yields to calls that run."""
        return 1 if any(one.in_use for one in self._classes.values()) else self._makers

    # --- doing it ---------------------------------------------------------------------------------------------------

    async def _fill(self) -> None:
        while True:
            try:
                async with asyncio.timeout(WINDOW_SECONDS):
                    await self._work.wait()
            except TimeoutError:
                pass  # a demand may have been forgotten
            self._work.clear()
            self._look()
            await self._let_go()
            while (one := self._next()) is not None:
                await self._keep_the_rate()
                one.making += 1
                task = asyncio.create_task(self._make_one(one))
                self._making.add(task)
                task.add_done_callback(self._made)

    async def _keep_the_rate(self) -> None:
        now = self._clock()
        if now < self._next_start:
            await asyncio.sleep(self._next_start - now)
        self._next_start = max(now, self._next_start) + 1 / self._settings.refill_per_second

    async def _make_one(self, one: _Class) -> None:
        try:
            sandbox = await self._make(one.kind)
        except InvocationError:  # the call that asks next makes its own, and is told why it cannot
            if self._classes.get(one.kind) is one:
                del self._classes[one.kind]
                self._lost.extend(one.parked)
            return
        finally:
            one.making -= 1
        if self._classes.get(one.kind) is one:
            one.parked.append(sandbox)
        else:
            self._lost.append(sandbox)

    def _made(self, task: "asyncio.Task[None]") -> None:
        self._making.discard(task)
        self._work.set()

    async def _let_go(self) -> None:
        while len(self._classes) > MAX_CLASSES:
            _, forgotten = self._classes.popitem(last=False)
            self._lost.extend(forgotten.parked)
        for one in self._classes.values():
            while len(one.parked) > max(self._target(one), 0):
                self._lost.append(one.parked.pop())
        while self._lost:
            await self._lost.pop().close()
