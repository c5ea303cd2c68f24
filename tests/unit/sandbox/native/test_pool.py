"""When the pool makes sandboxes ahead and when it lets them go, with sandboxes that are only counted."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from executor.model.errors import ErrorCode, ErrorDetail, InvocationError
from executor.model.limits import MIB, Limits
from executor.model.run import SandboxSpec
from executor.sandbox.native.pool import MAX_CLASSES, Pool

SPEC = SandboxSpec(image="host", limits=Limits())


class Parked:
    def __init__(self, spec: SandboxSpec, factory: "Factory") -> None:
        self.spec, self.alive, self._factory = spec, True, factory

    async def close(self) -> None:
        self._factory.closed.append(self)
        self._factory.pool.refill()  # as the backend does whenever one is gone


class Factory:
    """Makes sandboxes, but none with as little memory as a byte: that one is closed again."""

    def __init__(self, size: int = 2) -> None:
        self.made: list[Parked] = []
        self.closed: list[Parked] = []
        self.attempts = 0
        self.pool = Pool(self.make, size)

    async def make(self, spec: SandboxSpec) -> Parked:
        self.attempts += 1
        sandbox = Parked(spec, self)
        if spec.limits.memory_bytes == 1:
            await sandbox.close()
            raise InvocationError(ErrorDetail(code=ErrorCode.SANDBOX_UNAVAILABLE, message="its init died"))
        self.made.append(sandbox)
        return sandbox


@asynccontextmanager
async def started(size: int = 2) -> AsyncIterator[Factory]:
    factory = Factory(size)
    factory.pool.start()
    try:
        yield factory
    finally:
        await factory.pool.stop()


async def filled(factory: Factory) -> None:
    """The pool has done all that it had to."""
    factory.pool.refill()
    for _ in range(100):
        await asyncio.sleep(0)


def with_limits(**limits: float) -> SandboxSpec:
    return replace(SPEC, limits=Limits(**limits))


async def test_a_kind_that_was_asked_for_is_made_ahead_and_given_once():
    async with started() as factory:
        assert factory.pool.take(SPEC) is None
        await filled(factory)

        given = [factory.pool.take(SPEC) for _ in range(3)]

        assert given == [*factory.made[:2], None]


async def test_a_call_is_never_given_a_sandbox_of_another_kind():
    async with started() as factory:
        factory.pool.take(SPEC)
        await filled(factory)

        assert factory.pool.take(with_limits(memory_bytes=64 * MIB)) is None
        assert factory.pool.take(with_limits(wall_seconds=1.0)) in factory.made  # not fixed at its birth


async def test_a_kind_that_cannot_be_made_is_forgotten_and_not_tried_again():
    async with started() as factory:
        factory.pool.take(with_limits(memory_bytes=1))
        factory.pool.take(SPEC)
        await filled(factory)

        assert factory.attempts == 1 + 2
        await filled(factory)
        assert factory.attempts == 1 + 2
        assert factory.pool.take(SPEC) in factory.made


async def test_one_that_died_while_it_was_parked_is_closed_and_not_given():
    async with started() as factory:
        factory.pool.take(SPEC)
        await filled(factory)
        dead, alive = factory.made
        dead.alive = False

        assert factory.pool.take(SPEC) is alive
        await filled(factory)

        assert factory.closed == [dead]


async def test_kinds_that_nobody_asks_for_any_more_are_closed():
    async with started() as factory:
        for count in range(1, MAX_CLASSES + 3):
            factory.pool.take(with_limits(processes=count))
            await filled(factory)

        assert {sandbox.spec.limits.processes for sandbox in factory.closed} == {1, 2}
        assert len(factory.closed) == 4


async def test_a_pool_of_none_makes_none():
    async with started(size=0) as factory:
        factory.pool.take(SPEC)
        await filled(factory)

        assert factory.attempts == 0
