"""How much of a tool's time is left before its caller stops waiting. Pure: the clock is elsewhere.

The outcome has to reach the caller before the deadline does, or nobody there knows whether the tool ran.
"""

from executor.model.errors import ErrorCode, ErrorDetail, InvocationError
from executor.model.limits import Limits

ANSWER_SECONDS = 0.2
"""Kept back of the caller's deadline, or a tenth of it, for ending the tool and for the outcome's way back."""
LEAST_ANSWER_SECONDS = 0.04
"""Kept back of however near a deadline: making a sandbox, killing a tree and answering take 13 ms on two idle cores."""
LEAST_SECONDS = 0.01
"""Nothing useful runs in less."""


def last_start(deadline: float, now: float) -> float:
    """The time from which on nothing is started for this deadline. In seconds of one clock, as everywhere here."""
    return deadline - _kept_back(deadline - now) - LEAST_SECONDS


def within_deadline(limits: Limits, deadline: float | None, now: float) -> Limits:
    """No deadline changes nothing.

    Raises InvocationError(TIMEOUT) where the time is up before anything has started.
    """
    if deadline is None:
        return limits
    left = deadline - now
    left -= _kept_back(left)
    if left < LEAST_SECONDS:
        raise too_late("the tool could start", suggestion="Call again with a later deadline.")
    return limits.lowered_by({"wall_seconds": left})


def too_late(before: str, *, suggestion: str, retry_after_ms: int | None = None) -> InvocationError:
    """`before`: what the deadline came before."""
    return InvocationError(
        ErrorDetail(
            code=ErrorCode.TIMEOUT,
            message=f"The caller's deadline came before {before}; nothing ran.",
            retryable=True,
            retry_after_ms=retry_after_ms,
            suggestion=suggestion,
        )
    )


def _kept_back(left: float) -> float:
    return min(ANSWER_SECONDS, max(LEAST_ANSWER_SECONDS, left / 10))
