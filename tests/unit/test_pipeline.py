"""The journey over the fake backend and the real stages; each stage writes down when it was asked."""

import asyncio
import threading
import time
from contextlib import asynccontextmanager

import pytest

from executor.admission.approval import NoApprovers
from executor.admission.capacity import Slots
from executor.admission.idempotency import NoReplay
from executor.admission.permission import DenyList
from executor.catalogue.catalogue import Catalogue
from executor.internal import ReadOutput
from executor.model.errors import ErrorCode, Unavailable
from executor.model.invocation import InputFile, Invocation
from executor.model.limits import Limits
from executor.model.outcome import Outcome, State
from executor.model.tool import Command, Effect, Policy, Tool
from executor.pipeline import Pipeline
from executor.sandbox.fake import FakeBackend
from executor.stores.directory import StoreDirectory
from executor.stores.files import FileOutputStore
from executor.stores.memory import MemoryLedger, Step

TEXT = {"type": "string", "description": "A text."}


def a_tool(name, *argv, internal=None, properties=None, required=(), effect=Effect.READ_ONLY, **limits):
    return Tool(
        name=name,
        version="1.0.0",
        description="For tests.",
        parameters={
            "type": "object",
            "additionalProperties": False,
            "properties": properties or {},
            "required": list(required),
        },
        effect=effect,
        policy=Policy(image="host", limits=Limits(**{"wall_seconds": 5, "text_bytes": 1024, **limits})),
        command=None if internal else Command(argv=argv),
        internal=internal,
        digest=f"sha256:{name}",
    )


TOOLS = Catalogue.of(
    [
        a_tool("echo", "echo", "{{text}}", properties={"text": TEXT}, required=["text"]),
        a_tool("sleep", "sleep", "60"),
        a_tool("fail", "exit", "3"),
        a_tool("fault", "fault"),
        a_tool("count", "count", "2000"),
        a_tool("write", "write", "out.txt", "made"),
        a_tool("drop", "true", effect=Effect.DESTRUCTIVE),
        a_tool(
            "read_output",
            internal="read_output",
            properties={"ref": TEXT, "start": {"type": "integer"}, "end": {"type": "integer"}, "regex": TEXT},
            required=["ref"],
        ),
    ]
)


class Journal(MemoryLedger):
    """The ledger, and everything that the other stages were asked, in order."""

    def __init__(self):
        super().__init__()
        self.steps = []

    async def attempt(self, invocation):
        self.steps.append("attempt")
        await super().attempt(invocation)

    async def intend(self, invocation, tool):
        self.steps.append("intend")
        await super().intend(invocation, tool)

    async def conclude(self, invocation, outcome):
        self.steps.append("conclude")
        await super().conclude(invocation, outcome)


class Permission(DenyList):
    def __init__(self, steps, denied=()):
        super().__init__(denied)
        self.steps = steps

    def check(self, principal, tool):
        self.steps.append("permission")
        super().check(principal, tool)


class Idempotency(NoReplay):
    def __init__(self, steps):
        self.steps = steps

    async def claim(self, invocation, tool, arguments):
        self.steps.append("idempotency")
        return await super().claim(invocation, tool, arguments)


class Approval(NoApprovers):
    def __init__(self, steps):
        super().__init__()
        self.steps = steps

    async def check(self, invocation, tool, arguments):
        self.steps.append("approval")
        await super().check(invocation, tool, arguments)


class Capacity(Slots):
    def __init__(self, steps):
        super().__init__(slots=2, queue_length=2, queue_timeout_seconds=5)
        self.steps = steps

    @asynccontextmanager
    async def slot(self, principal, tool, cancelled, deadline=None):
        self.steps.append("capacity")
        async with super().slot(principal, tool, cancelled, deadline) as queue_ms:
            yield queue_ms
            self.steps.append("released")


class Watcher:
    def __init__(self, steps):
        self.steps, self.chunks = steps, []
        self.began = asyncio.Event()

    def started(self, tool_version):
        self.steps.append(f"started {tool_version}")
        self.began.set()

    def output(self, stream, data):
        self.chunks.append((stream.value, data))


class World:
    """A pipeline with everything around it."""

    def __init__(self, outputs, **stages):
        self.ledger = Journal()
        self.steps = self.ledger.steps
        self.backend, self.outputs = FakeBackend(), outputs
        self.observer, self.cancelled = Watcher(self.steps), asyncio.Event()
        parts = {
            "catalogue": TOOLS,
            "permission": Permission(self.steps),
            "idempotency": Idempotency(self.steps),
            "approval": Approval(self.steps),
            "capacity": Capacity(self.steps),
            "ledger": self.ledger,
            "backend": self.backend,
            "outputs": outputs,
            "internal": ReadOutput(outputs),
        }
        self.pipeline = Pipeline(**{**parts, **stages})

    async def call(self, tool, arguments="{}", **more):
        invocation = Invocation(
            invocation_id="i1", tool=tool, arguments_json=arguments, call_id="c1", trace_id="1" * 32, **more
        )
        return await self.pipeline.execute(invocation, self.observer, self.cancelled)

    def rest(self):
        """Nothing is open or half written."""
        temporary = [file for place in self.outputs.directory.root.glob("tmp-*") for file in place.iterdir()]
        return self.backend.open_count, temporary


@pytest.fixture
async def outputs(tmp_path):
    store = FileOutputStore(tmp_path / "outputs", ttl_seconds=60, quota_bytes=10_000_000)
    await store.start()
    yield store
    await store.stop()


@pytest.fixture
async def world(outputs):
    world = World(outputs)
    await world.backend.start()
    yield world
    await world.backend.stop()
    assert world.rest() == (0, [])


async def test_the_journey_asks_each_stage_once_and_in_order(world):
    outcome = await world.call("echo", '{"text": "hello"}')
    assert world.steps == [
        "attempt",
        "permission",
        "idempotency",
        "approval",
        "capacity",
        "intend",
        "started 1.0.0",
        "released",
        "conclude",
    ]
    assert (outcome.state, outcome.exit_code, outcome.stdout.text) == (State.COMPLETED, 0, "hello\n")
    assert (outcome.invocation_id, outcome.call_id, outcome.trace_id) == ("i1", "c1", "1" * 32)
    assert (outcome.tool, outcome.tool_version, outcome.tool_digest) == ("echo", "1.0.0", "sha256:echo")
    assert outcome.isolation.backend == "fake"
    assert world.observer.chunks == [("stdout", b"hello\n")]


async def test_a_tool_that_exits_with_3_is_a_result_and_not_an_error(world):
    outcome = await world.call("fail")
    assert (outcome.state, outcome.exit_code, outcome.error) == (State.COMPLETED, 3, None)


async def test_an_executor_that_fails_is_an_error_and_not_a_result(world):
    outcome = await world.call("fault")
    assert outcome.state is State.FAILED
    assert outcome.exit_code is None
    assert outcome.error.code is ErrorCode.SANDBOX_UNAVAILABLE
    assert world.steps[-1] == "conclude"


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("ecko", "{}", ErrorCode.UNKNOWN_TOOL),
        ("echo", "{", ErrorCode.INVALID_JSON),
        ("echo", "{}", ErrorCode.SCHEMA_VIOLATION),
    ],
)
async def test_a_call_that_cannot_be_admitted_is_attempted_and_concluded_but_never_runs(world, tool, arguments, code):
    outcome = await world.call(tool, arguments)
    assert (outcome.state, outcome.error.code) == (State.FAILED, code)
    assert world.steps == ["attempt", "conclude"]
    assert world.backend.opened_count == 0


async def test_invalid_arguments_are_echoed(world):
    outcome = await world.call("echo", '{"txt": 1}')
    assert outcome.arguments_echo == '{"txt": 1}'


async def test_a_limit_that_does_not_exist_is_refused_by_name(world):
    outcome = await world.call("echo", '{"text": "x"}', limits={"wall": 1.0})
    assert outcome.error.violations[0].pointer == "/limits/wall"
    assert world.backend.opened_count == 0


async def test_a_denied_tool_never_runs(outputs):
    world = World(outputs, permission=DenyList(["echo"]))
    outcome = await world.call("echo", '{"text": "x"}')
    assert outcome.error.code is ErrorCode.PERMISSION_DENIED
    assert world.steps == ["attempt", "conclude"]


async def test_a_destructive_tool_never_runs_without_an_approval(world):
    outcome = await world.call("drop")
    assert outcome.error.code is ErrorCode.PERMISSION_DENIED
    assert "intend" not in world.steps


async def test_an_earlier_outcome_is_replayed_without_a_second_run(outputs):
    class Remembers(NoReplay):
        async def claim(self, invocation, tool, arguments):
            assert await super().claim(invocation, tool, arguments) is None
            return Outcome(invocation_id="i0", state=State.COMPLETED, tool=tool.name, exit_code=0)

    world = World(outputs, idempotency=Remembers())
    outcome = await world.call("echo", '{"text": "x"}')
    assert (outcome.invocation_id, outcome.replayed) == ("i0", True)
    assert "intend" not in world.steps
    assert world.backend.opened_count == 0


async def test_cancelling_ends_the_running_call_and_closes_its_sandbox(world):
    call = asyncio.ensure_future(world.call("sleep"))
    await world.observer.began.wait()
    world.cancelled.set()
    outcome = await call
    assert (outcome.state, outcome.error, outcome.exit_code) == (State.CANCELLED, None, None)
    assert world.ledger.entries()[-1].step is Step.CONCLUDED
    assert world.backend.open_count == 0


async def test_a_call_that_was_cancelled_before_it_came_never_starts(world):
    world.cancelled.set()
    outcome = await world.call("echo", '{"text": "x"}')
    assert outcome.state is State.CANCELLED
    assert "intend" not in world.steps


async def test_a_deadline_that_has_passed_starts_nothing(world):
    outcome = await world.call("echo", '{"text": "x"}', deadline=time.monotonic() - 1)
    assert (outcome.state, outcome.error.code) == (State.FAILED, ErrorCode.TIMEOUT)
    assert outcome.error.retryable
    assert "intend" not in world.steps
    assert world.backend.opened_count == 0


async def test_the_deadline_bounds_the_run_and_leaves_time_to_answer(world):
    deadline = time.monotonic() + 0.3
    outcome = await world.call("sleep", deadline=deadline)
    assert outcome.error.code is ErrorCode.TIMEOUT
    assert time.monotonic() < deadline
    assert 0 < outcome.isolation.limits.wall_seconds < 0.3


async def test_a_deadline_never_raises_the_limit_of_the_tool(world):
    await world.call("echo", '{"text": "x"}', deadline=time.monotonic() + 3600)
    assert world.backend.processes[0].wall_seconds == 5


async def test_files_go_in_and_artifacts_come_back_behind_refs(world):
    files = (InputFile(path="in.txt", content=b"given"),)
    outcome = await world.call("write", files=files, collect=("*.txt",))
    read = {a.path: b"".join([p async for p in world.outputs.read(a.ref, "local")]) for a in outcome.artifacts}
    assert read["out.txt"] == b"made"


async def test_a_long_output_is_cut_and_paged_through_with_read_output(world):
    outcome = await world.call("count")
    assert outcome.stdout.truncated
    page = await world.call("read_output", f'{{"ref": "{outcome.stdout.ref}", "start": 1000, "end": 1002}}')
    assert (page.state, page.exit_code, page.stdout.text) == (State.COMPLETED, 0, "o1001\no1002\n")
    assert page.isolation is None
    found = await world.call("read_output", f'{{"ref": "{outcome.stdout.ref}", "regex": "^o199[89]$"}}')
    assert found.stdout.text == "1997:o1998\n1998:o1999\n"
    assert world.backend.opened_count == 1


async def test_a_short_output_leaves_nothing_in_the_store(world):
    outcome = await world.call("echo", '{"text": "x"}')
    assert outcome.stdout.ref is None
    assert [file for file in world.outputs.directory.root.rglob("out_*") if file.is_file()] == []


async def test_a_ledger_that_cannot_be_written_is_the_services_own_trouble(outputs):
    class Full(MemoryLedger):
        async def intend(self, invocation, tool):
            await super().intend(invocation, tool)
            raise Unavailable("the disk is full")

    world = World(outputs, ledger=Full())
    with pytest.raises(Unavailable, match="the disk is full"):
        await world.call("echo", '{"text": "x"}')
    assert world.backend.opened_count == 0


@pytest.mark.parametrize("tool", ["count", "write"])
async def test_what_ran_is_told_though_its_full_output_cannot_be_kept(tmp_path, tool):
    store = FileOutputStore(tmp_path / "small", ttl_seconds=60, quota_bytes=2)
    await store.start()
    world = World(store)
    await world.backend.start()
    outcome = await world.call(tool, collect=("*",))
    await world.backend.stop()
    assert (outcome.state, outcome.exit_code, outcome.error) == (State.COMPLETED, 0, None)
    assert world.steps[-1] == "conclude"
    assert outcome.stdout.ref is None
    assert outcome.stdout.truncated is (tool == "count")
    assert outcome.artifacts == ()
    assert [refused.path for refused in outcome.artifacts_refused] == (["out.txt"] if tool == "write" else [])
    assert all("quota" in refused.reason for refused in outcome.artifacts_refused)
    assert world.rest() == (0, [])
    await store.stop()


async def test_the_breakdown_tells_where_all_of_the_time_went(world):
    arrived = time.monotonic() - 1.0
    used = (await world.call("echo", '{"text": "x"}', arrived=arrived)).usage
    parts = (used.admission_ms, used.queue_ms, used.setup_ms, used.wall_ms, used.teardown_ms, used.result_ms)
    assert all(part >= 0 for part in parts)
    assert used.admission_ms >= 1000
    assert sum(parts) <= used.total_ms + 0.01
    assert used.total_ms <= 1000 * (time.monotonic() - arrived)


@pytest.mark.parametrize(("tool", "arguments"), [("ecko", "{}"), ("echo", "{}"), ("read_output", '{"ref": "none"}')])
async def test_a_part_of_the_time_that_there_was_not_is_absent_and_not_zero(world, tool, arguments):
    used = (await world.call(tool, arguments)).usage
    assert (used.admission_ms, used.result_ms) == (None, None)
    assert used.total_ms > 0


async def test_a_cancelled_call_tells_its_time_too(world):
    call = asyncio.ensure_future(world.call("sleep"))
    await world.observer.began.wait()
    await asyncio.sleep(0)
    world.cancelled.set()
    used = (await call).usage
    assert used.total_ms >= used.admission_ms + used.result_ms


async def test_a_disk_that_hangs_holds_up_only_the_call_that_needs_it(tmp_path):
    class Hanging(StoreDirectory):
        asked, let_go = threading.Event(), threading.Event()

        def create_temporary(self, name):
            self.asked.set()
            assert self.let_go.wait(30)
            return super().create_temporary(name)

    store = FileOutputStore(tmp_path / "hanging", ttl_seconds=60, quota_bytes=10_000_000)
    store.directory = Hanging(store.directory.root)
    await store.start()
    world = World(store)
    await world.backend.start()
    long = asyncio.ensure_future(world.call("count"))
    assert await asyncio.to_thread(Hanging.asked.wait, 30)
    for number in range(20):
        assert (await world.call("echo", f'{{"text": "{number}"}}')).stdout.text == f"{number}\n"
    assert not long.done()
    Hanging.let_go.set()
    assert (await long).stdout.ref is not None
    await world.backend.stop()
    await store.stop()
