"""The setting of every probe: one real server, and the proof after each that it is healthy and that nothing is left.

Every probe runs in two ways: on a server as it is by default, where a sandbox may be parked ahead and its interpreter
be a template's copy, and on one that makes each sandbox on demand and starts each interpreter.
"""

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from executor.client import ExecutorClient
from tests.security import serving, world
from tests.security.caller import Caller, assert_completed, prepared
from tests.security.serving import Server
from tests.security.ways import WAYS, Way

CATALOGUE = Path(__file__).parent / "tools"
HOST_LACKS = "this host does not let this user limit"
"""What the server says when it refuses to start for want of a facility, and nothing else is wrong."""


WARM_SECONDS = 20.0


@pytest.fixture(scope="session", params=WAYS.values(), ids=WAYS)
def way(request: pytest.FixtureRequest) -> Way:
    return request.param


@pytest.fixture(scope="session")
def canary() -> str:
    """A word that stands in the server's environment, and in files of the host that tests make."""
    return f"canary-{secrets.token_hex(16)}"


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, way: Way, canary: str) -> Iterator[Server]:
    """Where an ordinary user has no cgroup to limit with, the server refuses to start, and these tests cannot run."""
    try:
        environment = {"HOST_SECRET": canary, **way.environment}
        server = serving.start(tmp_path_factory.mktemp("server"), CATALOGUE, environment=environment)
    except serving.NotServing as refusal:
        if os.geteuid() == 0 or os.environ.get("CI") or HOST_LACKS not in str(refusal):
            raise
        pytest.skip(str(refusal))
    cgroups = world.cgroup_directories(server.pid)
    try:
        yield server
        unclaimed = world.unclaimed(server)
    finally:
        status = server.stop()
    assert unclaimed == [], "more sandboxes wait for a call than the pool keeps"
    assert status == 0, f"SIGTERM ended the server with status {status}: {server.log}"
    assert [path for path in cgroups if Path(path).exists()] == [], "the server left its cgroups behind"


@pytest.fixture
async def client(server: Server) -> AsyncIterator[ExecutorClient]:
    async with ExecutorClient(server.address) as client:
        yield client


@pytest.fixture
def caller(client: ExecutorClient) -> Caller:
    return Caller(client)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def warm(server: Server, way: Way) -> None:
    """A first call has made whatever is made once, and sandboxes are prepared as they will be."""
    async with ExecutorClient(server.address) as client, asyncio.timeout(WARM_SECONDS):
        while True:
            outcome = await Caller(client).python("print(1)")
            assert_completed(outcome)
            if prepared(outcome) == way.prepared:
                return
            await asyncio.sleep(world.POLL_SECONDS)


@pytest.fixture(autouse=True)
def nothing_left(server: Server, warm: None) -> Iterator[None]:
    """After each test the server answers its health check within a second, and the census of its world is the same."""
    before = world.calm(server)
    yield
    assert server.healthy(), f"the server does not answer within {serving.HEALTH_SECONDS:g} s: {server.log}"
    left = world.settled(server, before)
    assert left == {}, f"left behind: {left}"
