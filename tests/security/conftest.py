"""The setting of every probe: one real server, and the proof after each that it is healthy and that nothing is left."""

import os
import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from executor.client import ExecutorClient
from tests.security import serving, world
from tests.security.caller import Caller, assert_completed
from tests.security.serving import Server

CATALOGUE = Path(__file__).parent / "tools"
HOST_LACKS = "this host does not let this user limit"
"""What the server says when it refuses to start for want of a facility, and nothing else is wrong."""


@pytest.fixture(scope="session")
def canary() -> str:
    """A word that stands in the server's environment, and in files of the host that tests make."""
    return f"canary-{secrets.token_hex(16)}"


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, canary: str) -> Iterator[Server]:
    """Where an ordinary user has no cgroup to limit with, the server refuses to start, and these tests cannot run."""
    try:
        server = serving.start(tmp_path_factory.mktemp("server"), CATALOGUE, environment={"HOST_SECRET": canary})
    except serving.NotServing as refusal:
        if os.geteuid() == 0 or os.environ.get("CI") or HOST_LACKS not in str(refusal):
            raise
        pytest.skip(str(refusal))
    cgroups = world.cgroup_directories(server.pid)
    try:
        yield server
    finally:
        status = server.stop()
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
async def warm(server: Server) -> None:
    """A first call has made whatever is made once."""
    async with ExecutorClient(server.address) as client:
        assert_completed(await Caller(client).python("print(1)"))


@pytest.fixture(autouse=True)
def nothing_left(server: Server, warm: None) -> Iterator[None]:
    """After each test the server answers its health check within a second, and the census of its world is the same."""
    before = world.calm(server)
    yield
    assert server.healthy(), f"the server does not answer within {serving.HEALTH_SECONDS:g} s: {server.log}"
    left = world.settled(server, before)
    assert left == {}, f"left behind: {left}"
