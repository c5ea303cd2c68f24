"""Which principal may use which tool. Pure.

This version knows one principal, the operator's own user; whoever else asks is refused, so that a caller that ingress
comes to authenticate later starts with nothing.
"""

from collections.abc import Collection

from executor.model.errors import ErrorCode, ErrorDetail, InvocationError
from executor.model.invocation import LOCAL, Principal
from executor.model.tool import Tool


class DenyList:
    """Everything to the local principal but the tools that the operator denied by name."""

    def __init__(self, denied: Collection[str] = ()) -> None:
        self._denied = frozenset(denied)

    def check(self, principal: Principal, tool: Tool) -> None:
        if principal != LOCAL:
            raise _denied(f"{principal.name!r} may not use the tool {tool.name!r}.")
        if tool.name in self._denied:
            raise _denied(f"The operator of this service has denied the tool {tool.name!r}.")


def _denied(message: str) -> InvocationError:
    return InvocationError(
        ErrorDetail(
            code=ErrorCode.PERMISSION_DENIED,
            message=message,
            suggestion="Tell the user; use another tool, or ask the operator to allow this one.",
        )
    )
