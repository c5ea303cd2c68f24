"""When the pool makes sandboxes ahead and when it lets them go, with sandboxes that are only counted."""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from executor.model.errors import ErrorCode, ErrorDetail, InvocationError
from executor.model.limits import MIB, Limits
from executor.model.run import SandboxSpec
from executor.sandbox.native.pool import MAX_CLASSES, WINDOW_SECONDS, Kind, Pool, PoolSettings

SPEC = SandboxSpec(image="host", limits=Limits())
KIND = Kind.of(SPEC)


class Parked:
    def __init__(self, kind: Kind, factory: "Factory") -> None:
        self.kind, self.alive, self._factory = kind, True, factory

    async def close(self) -> None:
        self._factory.closed.append(self)


class Factory:
    """Makes sandboxes, but none with as little memory as a byte; and has the time and the memory of a host."""

    def __init__(self, settings: PoolSettings, makers: int) -> None:
        self.made: list[Parked] = []
        self.closed: list[Parked] = []
        self.attempts = self.most_at_one_time = self._at_one_time = 0
        self.now, self.is_short = 1000.0, False
        self.before_made: Callable[[], Awaitable[object]] = lambda: asyncio.sleep(0)
        self.pool = Pool(self.make, settings, makers=makers, short=lambda: self.is_short, clock=lambda: self.now)

    async def make(self, kind: Kind) -> Parked:
        self.attempts += 1
        self._at_one_time += 1
        self.most_at_one_time = max(self.most_at_one_time, self._at_one_time)
        try:
            await self.before_made()
        finally:
            self._at_one_time -= 1
        if kind.spec.limits.memory_bytes == 1:
            raise InvocationError(ErrorDetail(code=ErrorCode.SANDBOX_UNAVAILABLE, message="its init died"))
        self.made.append(Parked(kind, self))
        return self.made[-1]

    def parked(self, kind: Kind = KIND) -> int:
        one = self.pool._classes.get(kind)
        return len(one.parked) if one else 0

    def begin(self, calls: int, kind: Kind = KIND) -> None:
        for _ in range(calls):
            self.pool.take(kind)

    def end(self, calls: int, kind: Kind = KIND) -> None:
        for _ in range(calls):
            self.pool.given_back(kind)

    async def serve(self, calls: int, kind: Kind = KIND) -> None:
        """So many at one time, from their begin to their end."""
        self.begin(calls, kind)
        self.end(calls, kind)
        await self.filled()

    async def pass_window(self) -> None:
        self.now += WINDOW_SECONDS
        await self.filled()

    async def filled(self) -> None:
        """The pool has done all that it had to."""
        self.pool.expect([])
        for _ in range(300):
            await asyncio.sleep(0)


@asynccontextmanager
async def started(
    least: int = 2, most: int = 32, *, makers: int = 4, per_second: float = math.inf
) -> AsyncIterator[Factory]:
    factory = Factory(PoolSettings(least=least, most=most, refill_per_second=per_second), makers)
    factory.pool.start()
    try:
        yield factory
    finally:
        await factory.pool.stop()


def with_limits(**limits: float) -> Kind:
    return Kind.of(replace(SPEC, limits=Limits(**limits)))


# --- which sandbox serves which call --------------------------------------------------------------------------------


def test_sandboxes_are_of_one_kind_where_only_watched_limits_differ():
    assert with_limits() == with_limits(wall_seconds=1, output_bytes=5)


@pytest.mark.parametrize(
    "other",
    [
        Kind.of(replace(SPEC, image="j")),
        with_limits(memory_bytes=1),
        with_limits(processes=1),
        with_limits(workspace_bytes=1),
        with_limits(open_files=1),
        with_limits(cpu_cores=0.5),
        Kind.of(replace(SPEC, network="other")),
        Kind.of(SPEC, "python"),
    ],
)
def test_sandboxes_are_of_another_kind_where_something_fixed_at_birth_differs(other):
    assert other != KIND


async def test_a_kind_that_was_asked_for_is_made_ahead_and_given_once():
    async with started() as factory:
        assert factory.pool.take(KIND) is None
        factory.pool.given_back(KIND)
        await factory.filled()

        given = [factory.pool.take(KIND) for _ in range(3)]

        assert given == [*factory.made[:2], None]


async def test_a_call_is_never_given_a_sandbox_of_another_kind():
    async with started() as factory:
        await factory.serve(1)

        assert factory.pool.take(with_limits(memory_bytes=64 * MIB)) is None
        assert factory.pool.take(Kind.of(SPEC, "python")) is None
        assert factory.pool.take(with_limits(wall_seconds=1.0)) in factory.made  # not fixed at its birth


async def test_one_that_died_while_it_was_parked_is_closed_and_not_given():
    async with started() as factory:
        await factory.serve(1)
        dead, alive = factory.made
        dead.alive = False

        assert factory.pool.take(KIND) is alive
        await factory.filled()

        assert factory.closed == [dead]


async def test_a_pool_of_none_makes_none():
    async with started(most=0) as factory:
        factory.pool.expect([KIND])
        await factory.serve(3)

        assert factory.attempts == 0


# --- how many are kept ----------------------------------------------------------------------------------------------


async def test_as_many_are_kept_as_were_in_use_at_one_time():
    async with started() as factory:
        await factory.serve(7)
        assert factory.parked() == 7


async def test_calls_one_after_another_do_not_make_the_pool_larger():
    async with started() as factory:
        for _ in range(7):
            await factory.serve(1)
        assert factory.parked() == 2


async def test_a_demand_is_remembered_for_a_window_and_forgotten_after_two():
    async with started() as factory:
        await factory.serve(7)
        await factory.pass_window()
        assert factory.parked() == 7
        await factory.pass_window()
        assert factory.parked() == 2
        assert len(factory.closed) == 5
        assert factory.pool.take(KIND) in set(factory.made) - set(factory.closed)


async def test_what_is_still_in_use_when_a_window_ends_is_not_forgotten():
    async with started() as factory:
        factory.begin(7)
        for _ in range(3):
            await factory.pass_window()
        factory.end(7)
        await factory.filled()
        assert factory.parked() == 7


async def test_a_smaller_demand_takes_the_place_of_a_larger_one():
    async with started() as factory:
        await factory.serve(7)
        await factory.pass_window()
        await factory.serve(4)
        await factory.pass_window()
        assert factory.parked() == 4


async def test_no_more_are_kept_in_all_than_the_pool_may_hold():
    other = with_limits(processes=1)
    async with started(most=5) as factory:
        await factory.serve(4)
        await factory.serve(4, other)
        assert factory.pool.parked == factory.parked() + factory.parked(other) == 5
        assert factory.parked(other) >= 2, "the first kind leaves the least to the other one"


async def test_a_demand_beyond_the_bound_is_kept_up_to_it():
    async with started(most=5) as factory:
        await factory.serve(50)
        assert factory.parked() == factory.attempts == 5


async def test_a_kind_that_is_expected_finds_sandboxes_for_its_first_call():
    python = Kind.of(SPEC, "python")
    async with started(least=3) as factory:
        factory.pool.expect([KIND, python])
        await factory.filled()
        assert (factory.parked(), factory.parked(python)) == (3, 3)
        assert factory.pool.take(python) is not None


async def test_a_kind_that_is_expected_again_keeps_what_it_has():
    async with started() as factory:
        factory.pool.expect([KIND])
        await factory.filled()
        factory.pool.expect([KIND])
        await factory.filled()
        assert factory.attempts == 2


# --- when they are made ---------------------------------------------------------------------------------------------


async def test_a_refill_makes_several_at_one_time_while_nothing_runs():
    async with started(least=8, makers=4) as factory:
        await factory.serve(1)
        assert factory.most_at_one_time == 4


async def test_a_refill_makes_one_at_a_time_while_a_call_of_any_kind_runs():
    async with started(least=8, makers=4) as factory:
        factory.begin(1, with_limits(processes=1))
        await factory.filled()
        await factory.serve(1)
        assert factory.most_at_one_time == 1
        assert factory.parked() == 8


async def test_no_more_are_made_in_a_second_than_the_rate_says():
    """The clock of the pool stands still: after the first one it waits for its time."""
    async with started(least=8, per_second=0.001) as factory:
        await factory.serve(1)
        assert factory.attempts == 1


async def test_the_kind_that_lacks_most_is_made_first():
    other = with_limits(processes=1)
    async with started(makers=1) as factory:
        factory.begin(2)
        factory.begin(6, other)
        factory.end(2)
        factory.end(6, other)
        await factory.filled()
        assert [sandbox.kind for sandbox in factory.made[:4]] == [other] * 4
        assert (factory.parked(), factory.parked(other)) == (2, 6)


# --- when they are let go -------------------------------------------------------------------------------------------


async def test_a_host_that_is_short_of_memory_keeps_nothing_until_it_has_some_again():
    async with started() as factory:
        await factory.serve(4)
        factory.is_short = True
        factory.now += 1.0
        await factory.serve(1)
        assert factory.pool.parked == 0
        assert set(factory.closed) | {factory.made[0]} == set(factory.made)
        made = factory.attempts
        await factory.serve(1)
        assert factory.attempts == made
        factory.is_short = False
        factory.now += 1.0
        await factory.filled()
        assert factory.parked() == 4


async def test_a_kind_that_cannot_be_made_is_dropped_and_not_tried_again():
    never = with_limits(memory_bytes=1)
    async with started(makers=1) as factory:
        factory.begin(1, never)
        factory.end(1, never)
        await factory.serve(1)

        assert factory.attempts == 1 + 2
        await factory.filled()
        assert factory.attempts == 1 + 2
        assert factory.pool.take(KIND) in factory.made


async def test_kinds_that_nobody_asks_for_any_more_are_closed():
    async with started() as factory:
        for count in range(1, MAX_CLASSES + 3):
            await factory.serve(1, with_limits(processes=count))

        assert {sandbox.kind.spec.limits.processes for sandbox in factory.closed} == {1, 2}
        assert len(factory.closed) == 4


async def test_one_that_is_made_when_its_kind_is_forgotten_is_closed():
    async with started(makers=1) as factory:
        held = asyncio.Event()
        factory.before_made = held.wait
        await factory.serve(1, with_limits(processes=1))
        for count in range(2, MAX_CLASSES + 2):
            await factory.serve(1, with_limits(processes=count))
        held.set()
        await factory.filled()
        assert [sandbox.kind.spec.limits.processes for sandbox in factory.closed] == [1]
        assert factory.pool.parked == len(factory.made) - 1


async def test_a_failure_of_a_kind_that_was_forgotten_does_not_lose_what_is_parked_of_it_since():
    async with started(makers=1) as factory:
        held = asyncio.Event()

        async def fail_later() -> None:
            await held.wait()
            raise InvocationError(ErrorDetail(code=ErrorCode.SANDBOX_UNAVAILABLE, message="just once"))

        factory.before_made = fail_later
        await factory.serve(1)
        for count in range(1, MAX_CLASSES + 1):
            await factory.serve(1, with_limits(processes=count))
        factory.begin(1)
        factory.pool._classes[KIND].parked.append(kept := Parked(KIND, factory))
        factory.before_made = lambda: asyncio.sleep(0)
        held.set()
        await factory.filled()
        assert factory.attempts > 1
        assert factory.pool.take(KIND) is kept


async def test_a_pool_that_stops_leaves_what_is_parked_open():
    async with started() as factory:
        await factory.serve(3)
    assert factory.parked() == 3
    assert factory.closed == []


async def test_a_pool_that_stops_waits_for_what_is_being_made():
    async with started() as factory:
        held = asyncio.Event()
        factory.before_made = held.wait
        await factory.serve(1)
        stopping = asyncio.create_task(factory.pool.stop())
        await asyncio.sleep(0)
        assert not stopping.done()
        held.set()
        await stopping
        assert factory.parked() == len(factory.made) == 2
