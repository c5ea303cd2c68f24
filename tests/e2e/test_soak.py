"""A thousand calls in a row on one server, a third of them hostile: each is answered as it should be, and afterwards
the server's world is what it was.
"""

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import aclosing

import pytest

from executor.client import ExecutorClient, InputFile
from executor.model.errors import ErrorCode
from executor.model.events import Output
from executor.model.limits import KIB, MIB
from executor.model.outcome import Outcome, State
from tests.security import serving, world
from tests.security.memory import growth
from tests.security.serving import Server
from tests.support.hosts import need_every_limit

CALLS = 1000
WARM_CALLS = 60
"""Enough that each kind of call has been made, and what is made once has been made."""
IN_FLIGHT = 8
SETTLE_SECONDS = 3.0
MAX_GROWTH_BYTES = 32 * MIB

FORK_BOMB = """
import os
while True:
    try:
        os.fork()
    except BlockingIOError:
        pass
"""
MEMORY_HOG = "kept = [b'x' * (1 << 20) for _ in range(4096)]"
DAEMON = """
import os, time
if not os.fork():
    os.setsid()
    if not os.fork():
        print("daemon", flush=True)
        time.sleep(600)
    os._exit(0)
os.wait()
"""
FILLER = """
with open("/workspace/hog", "wb") as file:
    while True:
        file.write(b"x" * 65536)
"""
DEEP = """
import os
for _ in range(300):
    os.mkdir("d")
    os.chdir("d")
"""
ZOMBIES = """
import os
for _ in range(40):
    if not os.fork():
        os._exit(0)
print("zombies")
"""
ARTIFACT = """
with open("in.txt") as source, open("out.txt", "w") as target:
    target.write(source.read().upper())
"""
FAILING = "raise SystemExit(3)"

pytestmark = pytest.mark.timeout(300)

Call = Callable[[ExecutorClient], Awaitable[None]]


@pytest.fixture(params=["2", "0"], ids=["parked sandboxes", "none parked"])
def server(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Server]:
    """Without parked sandboxes, none is left out of the census."""
    need_every_limit()
    directory = tmp_path_factory.mktemp("server")
    (directory / "catalogue").mkdir()
    server = serving.start(directory, directory / "catalogue", environment={"EXECUTOR_POOL_SIZE": request.param})
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


async def test_a_thousand_calls_leave_nothing_behind(server: Server, client: ExecutorClient) -> None:
    await all_made(client, calls(WARM_CALLS))
    before = await asyncio.to_thread(world.calm, server)

    with growth(server.pid) as grown:
        await all_made(client, calls(CALLS))
        left = await asyncio.to_thread(world.settled, server, before, SETTLE_SECONDS)

    assert left == {}
    assert grown.kept_bytes < MAX_GROWTH_BYTES
    assert await asyncio.to_thread(server.healthy)
    assert server.log.count("invocation broke") == 0


async def echoes(client: ExecutorClient) -> None:
    outcome = await python(client, "print(6 * 7)")
    assert_ended(outcome, State.COMPLETED, exit_code=0)
    assert outcome.stdout.text == "42\n"


async def shells(client: ExecutorClient) -> None:
    outcome = await client.execute("shell", {"command": "seq 1000 | sort -rn | head -n 1"})
    assert_ended(outcome, State.COMPLETED, exit_code=0)
    assert outcome.stdout.text == "1000\n"


async def brings_a_file_back(client: ExecutorClient) -> None:
    staged = InputFile(path="in.txt", content=b"some text")
    outcome = await python(client, ARTIFACT, files=[staged], collect=["out.txt"])
    assert_ended(outcome, State.COMPLETED, exit_code=0)
    content = b"".join([piece async for piece in client.read_output(outcome.artifacts[0].ref)])
    assert content == b"SOME TEXT"


async def fails(client: ExecutorClient) -> None:
    assert_ended(await python(client, FAILING), State.COMPLETED, exit_code=3)


async def is_refused(client: ExecutorClient) -> None:
    outcome = await client.execute("python", {"kode": "print(1)"})
    assert_ended(outcome, State.FAILED, ErrorCode.SCHEMA_VIOLATION)


async def forks(client: ExecutorClient) -> None:
    outcome = await python(client, FORK_BOMB, limits={"processes": 16, "wall_seconds": 0.5})
    assert_ended(outcome, State.FAILED, ErrorCode.TIMEOUT)


async def hogs_memory(client: ExecutorClient) -> None:
    outcome = await python(client, MEMORY_HOG, limits={"memory_bytes": 48 * MIB})
    assert_ended(outcome, State.FAILED, ErrorCode.MEMORY_LIMIT)


async def floods(client: ExecutorClient) -> None:
    outcome = await client.execute("shell", {"command": "yes"}, limits={"output_bytes": 256 * KIB})
    assert_ended(outcome, State.FAILED, ErrorCode.OUTPUT_LIMIT)


async def leaves_a_daemon(client: ExecutorClient) -> None:
    outcome = await python(client, DAEMON)
    assert_ended(outcome, State.COMPLETED, exit_code=0)
    assert outcome.usage.wall_ms < 10_000


async def leaves_zombies(client: ExecutorClient) -> None:
    assert_ended(await python(client, ZOMBIES), State.COMPLETED, exit_code=0)


async def oversleeps(client: ExecutorClient) -> None:
    outcome = await python(client, "import time; time.sleep(600)", limits={"wall_seconds": 0.3})
    assert_ended(outcome, State.FAILED, ErrorCode.TIMEOUT)


async def is_cancelled(client: ExecutorClient) -> None:
    """While it runs, and by going away."""
    events = client.execute_stream("python", {"code": "print(1, flush=True)\nwhile True: pass"})
    async with aclosing(events):
        async for event in events:
            if isinstance(event, Output):
                return


async def is_cancelled_early(client: ExecutorClient) -> None:
    """Wherever it happens to be by then."""
    task = asyncio.ensure_future(client.execute("python", {"code": "while True: pass"}))
    await asyncio.wait((task,), timeout=0.01)
    task.cancel()
    await asyncio.wait((task,))
    assert task.cancelled()


async def fills_the_disk(client: ExecutorClient) -> None:
    outcome = await python(client, FILLER, limits={"workspace_bytes": MIB})
    assert_ended(outcome, State.FAILED, ErrorCode.DISK_LIMIT)


async def digs_deep(client: ExecutorClient) -> None:
    outcome = await python(client, DEEP, collect=["**"])
    assert_ended(outcome, State.COMPLETED, exit_code=0)
    assert "deeper than" in outcome.artifacts_refused[0].reason


HONEST: tuple[Call, ...] = (echoes, shells, brings_a_file_back, fails, is_refused)
HOSTILE: tuple[Call, ...] = (
    forks,
    hogs_memory,
    floods,
    leaves_a_daemon,
    leaves_zombies,
    oversleeps,
    is_cancelled,
    is_cancelled_early,
    fills_the_disk,
    digs_deep,
)


def calls(count: int) -> list[Call]:
    """A third of them hostile, in an order that is always the same and has no pattern."""
    honest = itertools.islice(itertools.cycle(HONEST), count - count // 3)
    hostile = itertools.islice(itertools.cycle(HOSTILE), count // 3)
    chosen = [*honest, *hostile]
    random.Random(count).shuffle(chosen)  # noqa: S311 - a test that can be repeated
    return chosen


async def all_made(client: ExecutorClient, chosen: Iterable[Call]) -> None:
    waiting, made = iter(chosen), Counter[str]()

    async def work() -> None:
        for call in waiting:
            await call(client)
            made[call.__name__] += 1

    async with asyncio.TaskGroup() as group:
        for _ in range(IN_FLIGHT):
            group.create_task(work())
    assert {call.__name__ for call in (*HONEST, *HOSTILE)} == set(made)


async def python(client: ExecutorClient, code: str, **options: object) -> Outcome:
    return await client.execute("python", {"code": code}, **options)  # type: ignore[arg-type]


def assert_ended(
    outcome: Outcome, state: State, code: ErrorCode | None = None, *, exit_code: int | None = None
) -> None:
    said = f"{outcome.error}\n{outcome.stderr.text}"
    assert (outcome.state, outcome.error.code if outcome.error else None) == (state, code), said
    assert exit_code is None or outcome.exit_code == exit_code, said
