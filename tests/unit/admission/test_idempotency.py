from executor.admission.idempotency import NoReplay
from executor.model.invocation import Invocation
from executor.model.limits import Limits
from executor.model.tool import Command, Effect, Policy, Tool


async def test_the_same_call_twice_is_two_calls():
    tool = Tool(
        name="shell",
        version="1.0.0",
        description="",
        parameters={"type": "object"},
        effect=Effect.MUTATING,
        policy=Policy(image="host", limits=Limits()),
        command=Command(argv=("true",)),
    )
    call = Invocation(invocation_id="i1", tool="shell", arguments_json="{}", call_id="c1")
    idempotency = NoReplay()
    assert await idempotency.claim(call, tool, {}) is None
    assert await idempotency.claim(call, tool, {}) is None
