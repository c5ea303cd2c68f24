"""Puts an outcome together from what the stages found out. Pure."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace

from executor.model.errors import ErrorDetail
from executor.model.invocation import Invocation
from executor.model.limits import Limits
from executor.model.outcome import Artifact, Outcome, Ran, State, Stream
from executor.model.run import CollectedFile, RefusedFile, StreamName, Usage
from executor.model.tool import Tool
from executor.result.artifacts import media_type
from executor.result.classify import classify


def stopped(invocation: Invocation, tool: Tool | None, state: State, usage: Usage) -> Outcome:
    """The outcome of a call of which nothing ran."""
    return Outcome(
        invocation_id=invocation.invocation_id,
        call_id=invocation.call_id,
        trace_id=invocation.trace_id,
        state=state,
        tool=tool.name if tool else invocation.tool,
        tool_version=tool.version if tool else None,
        tool_digest=tool.digest if tool else None,
        usage=usage,
    )


def failed(invocation: Invocation, tool: Tool | None, error: ErrorDetail, usage: Usage, echo: str | None) -> Outcome:
    """`echo`: the arguments as received, which come back where the model is to mend them."""
    return replace(stopped(invocation, tool, State.FAILED, usage), error=error, arguments_echo=echo)


def conclude(  # noqa: PLR0913 - all that an outcome is made of
    invocation: Invocation,
    tool: Tool,
    limits: Limits,
    ran: Ran,
    *,
    streams: Mapping[StreamName, Stream],
    artifacts: tuple[Artifact, ...],
    refused: tuple[RefusedFile, ...],
    usage: Usage,
) -> Outcome:
    report = ran.report
    verdict = classify(report, tool, limits) if report else None
    return Outcome(
        invocation_id=invocation.invocation_id,
        call_id=invocation.call_id,
        trace_id=invocation.trace_id,
        state=verdict.state if verdict else State.CANCELLED,
        tool=tool.name,
        tool_version=tool.version,
        tool_digest=tool.digest,
        exit_code=verdict.exit_code if verdict else None,
        stdout=streams[StreamName.STDOUT],
        stderr=streams[StreamName.STDERR],
        artifacts=artifacts,
        artifacts_refused=refused,
        error=verdict.error if verdict else None,
        usage=usage,
        isolation=ran.isolation,
    )


def spent(ran: Ran, *, arrived: float, queue_ms: float, now: float) -> Usage:
    """Where the time of a call went that had a sandbox. `arrived` and `now` on the clock of `ran`, in seconds."""
    known = ran.usage
    return Usage(
        queue_ms=_rounded(queue_ms),
        setup_ms=_rounded(known.setup_ms),
        wall_ms=_rounded(known.wall_ms),
        teardown_ms=_rounded(known.teardown_ms),
        cpu_ms=None if known.cpu_ms is None else _rounded(known.cpu_ms),
        peak_memory_bytes=known.peak_memory_bytes,
        peak_processes=known.peak_processes,
        admission_ms=_rounded(max(0.0, 1000 * (ran.asked - arrived) - queue_ms)),
        result_ms=_rounded(1000 * (now - ran.dead)),
        total_ms=_rounded(1000 * (now - arrived)),
    )


def unspent(*, arrived: float, now: float, queue_ms: float = 0.0, wall_ms: float = 0.0) -> Usage:
    """The same of a call that needed no sandbox, or got none."""
    return Usage(queue_ms=_rounded(queue_ms), wall_ms=_rounded(wall_ms), total_ms=_rounded(1000 * (now - arrived)))


def _rounded(milliseconds: float) -> float:
    """To microseconds: no clock of ours tells more."""
    return round(milliseconds, 3)


def artifact(file: CollectedFile, ref: str) -> Artifact:
    return Artifact(
        path=file.path,
        size_bytes=len(file.content),
        sha256=hashlib.sha256(file.content).hexdigest(),
        media_type=media_type(file.path, file.content[:512]),
        ref=ref,
    )
