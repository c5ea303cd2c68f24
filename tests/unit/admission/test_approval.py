import pytest

from executor.admission.approval import NoApprovers
from executor.model.errors import ErrorClass, ErrorCode, InvocationError
from executor.model.invocation import Invocation
from executor.model.limits import Limits
from executor.model.tool import Command, Effect, Policy, Tool

CALL = Invocation(invocation_id="i1", tool="drop", arguments_json="{}")


def a_tool(effect):
    return Tool(
        name="drop",
        version="1.0.0",
        description="",
        parameters={"type": "object"},
        effect=effect,
        policy=Policy(image="host", limits=Limits()),
        command=Command(argv=("true",)),
    )


@pytest.mark.parametrize("effect", [Effect.READ_ONLY, Effect.MUTATING])
async def test_a_tool_that_destroys_nothing_needs_no_approval(effect):
    assert await NoApprovers().check(CALL, a_tool(effect), {}) is None


async def test_a_destructive_tool_is_rejected_because_nobody_can_approve_it():
    with pytest.raises(InvocationError, match="approvals are not available") as caught:
        await NoApprovers().check(CALL, a_tool(Effect.DESTRUCTIVE), {})
    assert caught.value.detail.code is ErrorCode.PERMISSION_DENIED
    assert caught.value.detail.error_class is ErrorClass.REJECTED
    assert "allow_destructive" in caught.value.detail.suggestion


async def test_the_operator_may_approve_every_destructive_tool_beforehand():
    assert await NoApprovers(allow_destructive=True).check(CALL, a_tool(Effect.DESTRUCTIVE), {}) is None
