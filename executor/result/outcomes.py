"""Puts an outcome together from what the stages found out. Pure."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace

from executor.model.errors import ErrorClass, ErrorDetail
from executor.model.invocation import Invocation
from executor.model.limits import Limits
from executor.model.outcome import Artifact, Outcome, Ran, State, Stream
from executor.model.run import CollectedFile, StreamName, Usage
from executor.model.tool import Tool
from executor.result.artifacts import media_type
from executor.result.classify import classify


def stopped(invocation: Invocation, tool: Tool | None, state: State, error: ErrorDetail | None = None) -> Outcome:
    """The outcome of a call of which nothing ran."""
    return Outcome(
        invocation_id=invocation.invocation_id,
        call_id=invocation.call_id,
        trace_id=invocation.trace_id,
        state=state,
        tool=tool.name if tool else invocation.tool,
        tool_version=tool.version if tool else None,
        tool_digest=tool.digest if tool else None,
        error=error,
    )


def failed(invocation: Invocation, tool: Tool | None, error: ErrorDetail, echo: str) -> Outcome:
    """`echo`: the arguments as received, which come back where the model is to mend them."""
    outcome = stopped(invocation, tool, State.FAILED, error)
    return replace(outcome, arguments_echo=echo) if error.error_class is ErrorClass.INVALID_ARGUMENT else outcome


def conclude(
    invocation: Invocation,
    tool: Tool,
    limits: Limits,
    ran: Ran,
    streams: Mapping[StreamName, Stream],
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
        error=verdict.error if verdict else None,
        usage=ran.usage,
        isolation=ran.isolation,
    )


def rounded(usage: Usage) -> Usage:
    """To microseconds: no clock of ours tells more."""
    return replace(
        usage,
        queue_ms=round(usage.queue_ms, 3),
        setup_ms=round(usage.setup_ms, 3),
        wall_ms=round(usage.wall_ms, 3),
        teardown_ms=round(usage.teardown_ms, 3),
        cpu_ms=None if usage.cpu_ms is None else round(usage.cpu_ms, 3),
    )


def artifact(file: CollectedFile, ref: str) -> Artifact:
    return Artifact(
        path=file.path,
        size_bytes=len(file.content),
        sha256=hashlib.sha256(file.content).hexdigest(),
        media_type=media_type(file.path, file.content[:512]),
        ref=ref,
    )
