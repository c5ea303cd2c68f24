"""Tens of thousands of calls with many in flight, through a real server: none fails, and the server is as it was."""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Iterator

import psutil
import pytest

from executor.client import ExecutorClient
from executor.model.outcome import State
from tests.security import serving, world
from tests.security.serving import Server
from tests.support.hosts import need_every_limit

CALLS = 20_000 if os.environ.get("CI") else 2_000
WARM_CALLS = 1_000
IN_FLIGHT = 32
RECOVERY_SECONDS = 2.0
POLL_SECONDS = 0.02
MAX_GROWTH_BYTES = 8 * 1024 * 1024

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    need_every_limit()
    directory = tmp_path_factory.mktemp("server")
    (directory / "catalogue").mkdir()
    environment = {"EXECUTOR_SLOTS": str(IN_FLIGHT), "EXECUTOR_LOG_LEVEL": "warning"}
    server = serving.start(directory, directory / "catalogue", environment=environment)
    cgroups = world.cgroup_directories(server.pid)
    try:
        yield server
    finally:
        status = server.stop()
    assert status == 0, server.log
    assert not set(world.cgroup_directories(server.pid)) & set(cgroups), "the server left its cgroups behind"


@pytest.fixture
async def client(server: Server) -> AsyncIterator[ExecutorClient]:
    async with ExecutorClient(server.address) as client:
        yield client


async def burst(client: ExecutorClient, calls: int) -> Counter[str]:
    """How each came out, with a bounded number of them at one time."""
    outcomes: Counter[str] = Counter()
    numbers = iter(range(calls))

    async def one_after_another() -> None:
        for number in numbers:
            outcome = await client.execute(
                "shell", {"command": "true"} if number % 8 else {"command": "echo hi; exit 3"}
            )
            wanted = 0 if number % 8 else 3
            good = outcome.state is State.COMPLETED and outcome.exit_code == wanted
            outcomes["as wanted" if good else f"{outcome.state} {outcome.exit_code} {outcome.error}"] += 1

    async with asyncio.TaskGroup() as group:
        for _ in range(IN_FLIGHT):
            group.create_task(one_after_another())
    return outcomes


def resident_bytes(server: Server) -> int:
    """Of the server and its launchers."""
    root = psutil.Process(server.pid)
    return sum(process.memory_info().rss for process in (root, *root.children()))


async def pooled(client: ExecutorClient) -> bool:
    outcome = await client.execute("shell", {"command": "true"})
    assert outcome.isolation is not None
    return outcome.isolation.prepared.startswith("pooled")


async def test_no_call_of_a_long_burst_fails_and_the_server_does_not_grow(
    server: Server, client: ExecutorClient
) -> None:
    await burst(client, WARM_CALLS)
    before = resident_bytes(server)

    outcomes = await burst(client, CALLS)

    assert outcomes == {"as wanted": CALLS}
    assert resident_bytes(server) - before < MAX_GROWTH_BYTES


async def test_the_pool_has_recovered_soon_after_a_burst(server: Server, client: ExecutorClient) -> None:
    await burst(client, 4 * IN_FLIGHT)
    async with asyncio.timeout(RECOVERY_SECONDS):
        while not all([await pooled(client) for _ in range(4)]):  # noqa: ASYNC110 - the server is another process
            await asyncio.sleep(POLL_SECONDS)
