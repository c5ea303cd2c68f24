"""Execute and ExecuteStream, through a real server on a Unix socket."""

import asyncio
from contextlib import aclosing
from dataclasses import fields

import pytest

from executor.client import DeadlinePassed, ExecutorClient, InputFile, State
from executor.model.errors import BadRequest, EffectState, ErrorCode
from executor.model.events import Accepted, Ended, Heartbeat, Output, Started
from executor.model.outcome import Outcome
from executor.model.run import StreamName
from tests.support.served import Served


async def test_a_call_gives_its_outcome_with_every_field_that_applies(client: ExecutorClient) -> None:
    outcome = await client.execute("echo", {"text": "héllo"}, call_id="c-1", trace_id="a" * 32)
    assert (outcome.state, outcome.exit_code, outcome.stdout.text) == (State.COMPLETED, 0, "héllo\n")
    assert (outcome.call_id, outcome.trace_id) == ("c-1", "a" * 32)
    assert (outcome.tool, outcome.tool_version, outcome.tool_digest) == ("echo", "1.0.0", "sha256:echo")
    assert outcome.invocation_id.startswith("inv_")
    assert outcome.isolation is not None
    assert outcome.isolation.limits.wall_seconds > 0


async def test_the_outcome_over_the_wire_is_the_one_in_the_ledger(served: Served, client: ExecutorClient) -> None:
    over_the_wire = await client.execute("exit", {"code": 3})
    kept = served.ledger.entries()[-1].outcome
    assert [getattr(kept, field.name) for field in fields(Outcome)] == [
        getattr(over_the_wire, field.name) for field in fields(Outcome)
    ]


async def test_arguments_arrive_exactly_as_they_were_written(client: ExecutorClient) -> None:
    outcome = await client.execute("echo", '{ "text" :  "a\\u0000b" , "text": 1}')
    assert outcome.error is not None
    assert outcome.arguments_echo == '{ "text" :  "a\\u0000b" , "text": 1}'


async def test_half_a_surrogate_pair_in_the_arguments_is_answered_and_not_fatal(client: ExecutorClient) -> None:
    outcome = await client.execute("echo", '{"\\ud800": 1}')
    assert outcome.error is not None
    assert outcome.error.code is ErrorCode.INVALID_JSON


async def test_a_version_can_be_asked_for(client: ExecutorClient) -> None:
    assert (await client.execute("echo", "{}", version="0.9.0")).stdout.text == "old\n"


async def test_files_go_in_and_artifacts_come_back(client: ExecutorClient) -> None:
    outcome = await client.execute(
        "write",
        {"path": "out.txt", "text": "made"},
        files=[InputFile(path="in/a.txt", content=b"given")],
        collect=["**/*.txt"],
    )
    found = {artifact.path: artifact.ref for artifact in outcome.artifacts}
    assert set(found) == {"in/a.txt", "out.txt"}
    assert b"".join([piece async for piece in client.read_output(found["out.txt"])]) == b"made"


async def test_a_limit_is_lowered_for_one_call(client: ExecutorClient) -> None:
    outcome = await client.execute("zeros", {"count": 5000}, limits={"output_bytes": 100})
    assert outcome.error is not None
    assert outcome.error.code is ErrorCode.OUTPUT_LIMIT


async def test_a_limit_that_is_not_a_number_is_a_result(client: ExecutorClient) -> None:
    outcome = await client.execute("echo", {"text": "a"}, limits={"wall_seconds": float("nan")})
    assert outcome.error is not None
    assert outcome.error.violations[0].pointer == "/limits/wall_seconds"


async def test_an_unknown_tool_is_a_result_and_not_a_status(client: ExecutorClient) -> None:
    outcome = await client.execute("ecko", {})
    assert outcome.error is not None
    assert outcome.error.code is ErrorCode.UNKNOWN_TOOL
    assert outcome.tool_version is None


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"call_id": ""}, "call_id"),
        ({"call_id": "a\r\nb"}, "call_id"),
        ({"call_id": "a" * 257}, "call_id"),
        ({"trace_id": "0" * 32}, "trace_id"),
        ({"trace_id": "xyz"}, "trace_id"),
        ({"version": "9" * 300}, "version"),
    ],
)
async def test_a_malformed_call_is_refused_by_the_name_of_its_field(
    client: ExecutorClient, options: dict[str, str], field: str
) -> None:
    with pytest.raises(BadRequest, match=f"invocation.{field}"):
        await client.execute("echo", {"text": "a"}, **options)


async def test_the_deadline_of_the_call_ends_the_tool_in_time_to_answer(client: ExecutorClient) -> None:
    outcome = await client.execute("sleep", {"seconds": 15}, timeout_seconds=0.6)
    assert outcome.error is not None
    assert outcome.error.code is ErrorCode.TIMEOUT


async def test_an_answer_that_is_too_late_is_an_error_of_its_own(served: Served, client: ExecutorClient) -> None:
    await client.list_tools()  # so that the connection stands
    with pytest.raises(DeadlinePassed):
        await client.execute("sleep", {"seconds": 15}, timeout_seconds=0.0001)
    await served.until(lambda: served.server.running_count == 0)


async def test_a_client_that_goes_away_takes_its_tool_with_it(served: Served, client: ExecutorClient) -> None:
    call = asyncio.create_task(client.execute("sleep", {"seconds": 15}))
    await served.until(lambda: served.backend.open_count == 1)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await served.until(lambda: served.server.running_count == 0)
    assert served.backend.open_count == 0
    assert served.ledger.entries()[-1].outcome.state is State.CANCELLED


async def test_a_connection_that_breaks_takes_its_tools_with_it(served: Served) -> None:
    async with served.client() as client:
        calls = [asyncio.create_task(client.execute("sleep", {"seconds": 15})) for _ in range(3)]
        await served.until(lambda: served.backend.open_count == 3)
    await asyncio.wait(calls)
    assert all(call.cancelled() or call.exception() for call in calls)
    await served.until(lambda: served.server.running_count == 0)
    assert served.backend.open_count == 0


async def test_a_stream_tells_what_happens_while_it_happens(client: ExecutorClient) -> None:
    events = [event async for event in client.execute_stream("slow", {})]
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    assert isinstance(events[0], Accepted)
    assert isinstance(events[1], Started)
    assert any(isinstance(event, Heartbeat) for event in events)
    assert [(e.source, e.offset, e.data) for e in events if isinstance(e, Output)] == [
        (StreamName.STDOUT, 0, b"first\n"),
        (StreamName.STDERR, 0, b"second\n"),
    ]
    assert isinstance(events[-1], Ended)
    assert events[-1].outcome.invocation_id == events[0].invocation_id
    assert events[-1].outcome.stderr.text == "second\n"


async def test_a_stream_of_a_call_that_never_ran_ends_in_its_outcome(client: ExecutorClient) -> None:
    events = [event async for event in client.execute_stream("echo", "not JSON")]
    assert [type(event) for event in events] == [Accepted, Ended]


async def test_a_stream_that_is_left_early_kills_the_tool(served: Served, client: ExecutorClient) -> None:
    async with aclosing(client.execute_stream("sleep", {"seconds": 15})) as events:
        async for event in events:
            if isinstance(event, Started):
                break
    await served.until(lambda: served.server.running_count == 0)
    assert served.backend.open_count == 0


async def test_a_slow_reader_does_not_slow_the_run_and_is_told_what_it_missed(
    served: Served, client: ExecutorClient
) -> None:
    count = 8 * 1024 * 1024
    seen = skipped = 0
    async with aclosing(client.execute_stream("zeros", {"count": count})) as events:
        async for event in events:
            if isinstance(event, Started):
                await served.until(lambda: served.server.running_count == 0 or served.backend.open_count == 0)
            if isinstance(event, Output):
                skipped += event.skipped_bytes
                assert event.offset == seen + skipped
                seen += len(event.data)
    assert isinstance(event, Ended)
    assert event.outcome.stdout.total_bytes == count == seen + skipped
    assert skipped > 0


async def test_a_running_call_is_cancelled_by_either_id(served: Served, client: ExecutorClient) -> None:
    call = asyncio.create_task(client.execute("sleep", {"seconds": 15}, call_id="mine"))
    await served.until(lambda: served.backend.open_count == 1)
    assert await client.cancel(call_id="other") == ()
    cancelled = await client.cancel(call_id="mine")
    outcome = await call
    assert (outcome.state, cancelled) == (State.CANCELLED, (outcome.invocation_id,))
    assert served.backend.open_count == 0
    async with aclosing(client.execute_stream("sleep", {"seconds": 15})) as events:
        async for event in events:
            if isinstance(event, Accepted):
                assert await client.cancel(invocation_id=event.invocation_id) == (event.invocation_id,)
    assert isinstance(event, Ended)
    assert event.outcome.state is State.CANCELLED
    assert await client.cancel(invocation_id=event.outcome.invocation_id) == ()


async def test_fifty_clients_at_once_all_get_their_own_answer(served: Served) -> None:
    async def one(number: int) -> str:
        async with served.client() as client:
            echo = await client.execute("echo", {"text": f"{number}"})
            ends = [event async for event in client.execute_stream("echo", {"text": f"{number}"})]
            assert isinstance(ends[-1], Ended)
            assert ends[-1].outcome.stdout.text == echo.stdout.text
            return echo.stdout.text

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        calls = [group.create_task(one(number)) for number in range(50)]
    assert [call.result() for call in calls] == [f"{number}\n" for number in range(50)]


async def test_a_call_that_waits_for_a_slot_is_told_before_its_deadline_that_nothing_ran(
    served: Served, client: ExecutorClient
) -> None:
    """As many callers as there are slots keep them; the next one has a second."""
    keeping = [asyncio.create_task(client.execute("sleep", {"seconds": 15})) for _ in range(8)]
    await served.until(lambda: served.backend.open_count == 8)
    outcome = await client.execute("echo", {"text": "late"}, timeout_seconds=1)
    assert outcome.error is not None
    assert (outcome.error.code, outcome.error.effect) == (ErrorCode.TIMEOUT, EffectState.NONE)
    assert outcome.error.retryable
    assert "nothing ran" in outcome.error.message
    assert served.backend.opened_count == 8
    for call in keeping:
        call.cancel()
    await asyncio.wait(keeping)
