"""Whether somebody must say yes before a tool runs. Pure; this version has nobody to ask."""

from collections.abc import Mapping
from typing import Any

from executor.model.errors import ErrorCode, ErrorDetail, InvocationError
from executor.model.invocation import Invocation
from executor.model.tool import Effect, Tool


class NoApprovers:
    """Refuses what would need an approval, unless the operator has approved all of it beforehand."""

    def __init__(self, *, allow_destructive: bool = False) -> None:
        self._allow_destructive = allow_destructive

    async def check(self, invocation: Invocation, tool: Tool, arguments: Mapping[str, Any]) -> None:
        del invocation, arguments
        if tool.effect is Effect.DESTRUCTIVE and not self._allow_destructive:
            raise InvocationError(
                ErrorDetail(
                    code=ErrorCode.PERMISSION_DENIED,
                    message=f"The tool {tool.name!r} is destructive and needs an approval; "
                    "approvals are not available in this version.",
                    suggestion="Tell the user. With `allow_destructive: true` the operator lets all such calls run.",
                )
            )
