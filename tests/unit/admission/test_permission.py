import pytest

from executor.admission.permission import DenyList
from executor.model.errors import ErrorCode, InvocationError
from executor.model.invocation import LOCAL, Principal
from executor.model.limits import Limits
from executor.model.tool import Command, Effect, Policy, Tool


def a_tool(name="shell"):
    return Tool(
        name=name,
        version="1.0.0",
        description="",
        parameters={"type": "object"},
        effect=Effect.READ_ONLY,
        policy=Policy(image="host", limits=Limits()),
        command=Command(argv=("true",)),
    )


def refusal(permission, principal, tool):
    with pytest.raises(InvocationError) as caught:
        permission.check(principal, tool)
    assert caught.value.detail.code is ErrorCode.PERMISSION_DENIED
    assert not caught.value.detail.retryable
    return caught.value.detail.message


def test_the_local_principal_may_use_every_tool():
    assert DenyList().check(LOCAL, a_tool()) is None


def test_a_denied_tool_is_refused_by_name():
    permission = DenyList(["shell"])
    assert "'shell'" in refusal(permission, LOCAL, a_tool("shell"))
    assert permission.check(LOCAL, a_tool("python")) is None


def test_a_principal_that_is_not_local_starts_with_nothing():
    assert "'mallory'" in refusal(DenyList(), Principal(name="mallory", tenant="local"), a_tool())
    assert "'local'" in refusal(DenyList(), Principal(name="local", tenant="other"), a_tool())
