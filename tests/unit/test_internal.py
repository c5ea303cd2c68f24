import asyncio

import pytest

from executor.internal import ReadOutput
from executor.model.errors import ErrorCode, InvocationError, NotFound
from executor.model.invocation import Invocation, Principal
from executor.model.limits import Limits
from executor.model.outcome import State
from executor.model.tool import Effect, Policy, Tool

TOOL = Tool(
    name="read_output",
    version="1.0.0",
    description="",
    parameters={"type": "object"},
    effect=Effect.READ_ONLY,
    policy=Policy(image="host", limits=Limits()),
    command=None,
    internal="read_output",
)
LINES = b"".join(b"line %d\n" % number for number in range(1000))


class Shelf:
    """One output, in uneven pieces."""

    def __init__(self, content=LINES, *, stuck=False):
        self.content, self.stuck, self.closed = content, stuck, False

    async def read(self, ref, tenant):
        if (ref, tenant) != ("out_1", "local"):
            raise NotFound(f"There is no output under ref {ref!r}.")
        try:
            for at in range(0, len(self.content), 777):
                yield self.content[at : at + 777]
            if self.stuck:
                await asyncio.Event().wait()
        finally:
            self.closed = True


async def answer(shelf, arguments, tenant="local", **limits):
    call = Invocation(
        invocation_id="i1", tool="read_output", arguments_json="{}", principal=Principal(name="local", tenant=tenant)
    )
    return await ReadOutput(shelf).answer(call, TOOL, arguments, Limits(**limits))


async def refusal(shelf, arguments, **more):
    with pytest.raises(InvocationError) as caught:
        await answer(shelf, arguments, **more)
    return caught.value


async def test_a_range_of_lines_is_given_as_it_was_written():
    outcome = await answer(Shelf(), {"ref": "out_1", "start": 10, "end": 12})
    assert (outcome.state, outcome.exit_code) == (State.COMPLETED, 0)
    assert outcome.stdout.text == "line 10\nline 11\n"
    assert not outcome.stdout.truncated


async def test_what_has_no_room_ends_at_a_line_and_says_how_to_go_on():
    seen, start = [], 0
    for _ in range(100):
        outcome = await answer(Shelf(), {"ref": "out_1", "start": start}, text_bytes=1024)
        assert len(outcome.stdout.text.encode()) <= 1024
        lines = outcome.stdout.text.splitlines()
        if not outcome.stdout.truncated:
            seen += lines
            break
        assert outcome.stdout.ref == "out_1"
        *page, notice = lines
        seen += page
        start = int(notice.removeprefix("[there is more: go on with start=").removesuffix("]"))
    assert seen == LINES.decode().splitlines()


async def test_a_line_longer_than_an_answer_is_cut_and_said_to_be_so():
    shelf = Shelf(b"first\n" + b"x" * 5000 + b"\nlast\n")
    outcome = await answer(shelf, {"ref": "out_1", "start": 1}, text_bytes=1024)
    assert outcome.stdout.truncated
    assert "line 1 is longer than an answer" in outcome.stdout.text
    assert "start=2]" in outcome.stdout.text
    assert (await answer(shelf, {"ref": "out_1", "start": 2})).stdout.text == "last\n"


async def test_a_regex_gives_the_lines_that_match_with_their_numbers():
    outcome = await answer(Shelf(), {"ref": "out_1", "regex": "line 99[89]"})
    assert outcome.stdout.text == "998:line 998\n999:line 999\n"


async def test_more_matches_than_there_is_room_for_are_told():
    outcome = await answer(Shelf(), {"ref": "out_1", "regex": "line"}, text_bytes=1024)
    assert outcome.stdout.truncated
    assert outcome.stdout.text.endswith("[more lines match: use a narrower expression, or read by lines]")


async def test_a_limit_too_small_for_the_notice_is_still_kept():
    outcome = await answer(Shelf(), {"ref": "out_1"}, text_bytes=40)
    assert outcome.stdout.truncated
    assert len(outcome.stdout.text.encode()) <= 40


async def test_terminal_control_sequences_are_made_harmless():
    outcome = await answer(Shelf(b"\x1b[2Jred\n"), {"ref": "out_1"})
    assert "\x1b" not in outcome.stdout.text


@pytest.mark.parametrize("tenant", ["local", "other"])
async def test_an_absent_ref_and_a_foreign_one_look_the_same(tenant):
    ref = "out_2" if tenant == "local" else "out_1"
    error = await refusal(Shelf(), {"ref": ref}, tenant=tenant)
    assert error.detail.code is ErrorCode.SCHEMA_VIOLATION
    assert error.detail.violations[0].pointer == "/ref"
    assert "exactly as it was given" in error.detail.suggestion


async def test_what_is_no_expression_is_refused_with_its_place():
    error = await refusal(Shelf(), {"ref": "out_1", "regex": "(?<=a)b"})
    assert error.detail.violations[0].pointer == "/regex"


async def test_a_range_that_runs_backwards_is_refused():
    error = await refusal(Shelf(), {"ref": "out_1", "start": 5, "end": 2})
    assert error.detail.violations[0].pointer == "/end"


async def test_a_regex_and_a_range_exclude_each_other():
    error = await refusal(Shelf(), {"ref": "out_1", "regex": "x", "start": 1})
    assert error.detail.violations[0].keyword == "not"


async def test_a_source_that_does_not_end_is_left_at_the_wall_limit_and_closed():
    shelf = Shelf(stuck=True)
    error = await refusal(shelf, {"ref": "out_1"}, wall_seconds=0.05)
    assert error.detail.code is ErrorCode.TIMEOUT
    assert shelf.closed


async def test_a_source_is_closed_where_the_answer_was_full():
    shelf = Shelf()
    await answer(shelf, {"ref": "out_1"}, text_bytes=512)
    assert shelf.closed
