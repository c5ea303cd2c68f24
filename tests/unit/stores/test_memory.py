from executor.model.invocation import Invocation
from executor.model.limits import Limits
from executor.model.outcome import Outcome, State
from executor.model.tool import Command, Effect, Policy, Tool
from executor.stores.memory import MemoryLedger, Step

TOOL = Tool(
    name="shell",
    version="1.0.0",
    description="",
    parameters={"type": "object"},
    effect=Effect.READ_ONLY,
    policy=Policy(image="host", limits=Limits()),
    command=Command(argv=("true",)),
)


def call(name):
    return Invocation(invocation_id=name, tool="shell", arguments_json="{}")


def outcome(name):
    return Outcome(
        invocation_id=name, state=State.COMPLETED, tool="shell", tool_version="1.0.0", arguments_echo="long" * 1000
    )


async def test_it_knows_the_last_step_of_each_invocation():
    ledger = MemoryLedger()
    for name in ("a", "b", "c"):
        await ledger.attempt(call(name))
    await ledger.intend(call("a"), TOOL)
    await ledger.intend(call("b"), TOOL)
    await ledger.conclude(call("b"), outcome("b"))
    steps = [(e.invocation_id, e.step, e.tool_version) for e in ledger.entries()]
    assert steps == [("c", Step.ATTEMPTED, None), ("a", Step.INTENDED, "1.0.0"), ("b", Step.CONCLUDED, "1.0.0")]


async def test_it_keeps_the_last_ones_and_nothing_of_unbounded_size():
    ledger = MemoryLedger(kept_count=2)
    for name in ("a", "b", "c"):
        await ledger.attempt(call(name))
        await ledger.conclude(call(name), outcome(name))
    assert [e.invocation_id for e in ledger.entries()] == ["b", "c"]
    assert all(e.outcome.arguments_echo is None for e in ledger.entries())
