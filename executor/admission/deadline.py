"""How much of a tool's time is left before its caller stops waiting. Pure."""

from executor.model.errors import ErrorCode, ErrorDetail, InvocationError
from executor.model.limits import Limits

ANSWER_SECONDS = 0.2
"""Kept back of the caller's deadline, or a tenth of it, so that the outcome still reaches it."""
LEAST_SECONDS = 0.005
"""Less than it takes to make a sandbox."""


def within_deadline(limits: Limits, deadline: float | None, now: float) -> Limits:
    """`deadline` and `now` on one clock, in seconds; no deadline changes nothing.

    Raises InvocationError(TIMEOUT) where the time is up before anything has started.
    """
    if deadline is None:
        return limits
    left = deadline - now
    left -= min(ANSWER_SECONDS, left / 10)
    if left < LEAST_SECONDS:
        raise InvocationError(
            ErrorDetail(
                code=ErrorCode.TIMEOUT,
                message="The caller's deadline had passed before the tool could start; nothing ran.",
                retryable=True,
                suggestion="Call again with a later deadline.",
            )
        )
    return limits.lowered_by({"wall_seconds": left})
