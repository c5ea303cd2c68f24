"""An outcome as lines for a person. Pure; says nothing that the outcome does not."""

from collections.abc import Iterator
from dataclasses import dataclass

from executor.model.errors import ErrorDetail
from executor.model.outcome import Artifact, Outcome, State, Stream
from executor.model.run import Usage

KIB = 1024.0
GOOD, BAD, WARN, PLAIN, DIM = "green", "red", "yellow", "", "dim"


@dataclass(frozen=True, slots=True)
class Line:
    label: str
    text: str
    style: str = PLAIN
    """Of the label, where there are colours."""


def succeeded(outcome: Outcome) -> bool:
    return outcome.state is State.COMPLETED and outcome.exit_code == 0


def summary(outcome: Outcome) -> list[Line]:
    """What happened, what went wrong and what to do about it, what there is to fetch, what it cost."""
    return [
        _headline(outcome),
        *(_error(outcome.error) if outcome.error else ()),
        *_stream("stdout", outcome.stdout),
        *_stream("stderr", outcome.stderr),
        *(Line("artifact", _artifact(artifact)) for artifact in outcome.artifacts),
        *(Line("not collected", f"{refused.path}: {refused.reason}", WARN) for refused in outcome.artifacts_refused),
        Line("usage", usage(outcome.usage), DIM),
        *(Line("degraded", text, WARN) for text in (outcome.isolation.degraded if outcome.isolation else ())),
    ]


def usage(used: Usage) -> str:
    parts = [milliseconds(used.wall_ms), f"set-up {milliseconds(used.setup_ms)}"]
    if used.queue_ms >= 1:
        parts.append(f"queue {milliseconds(used.queue_ms)}")
    if used.total_ms is not None:
        parts.append(f"in all {milliseconds(used.total_ms)}")
    if used.cpu_ms is not None:
        parts.append(f"cpu {milliseconds(used.cpu_ms)}")
    if used.peak_memory_bytes is not None:
        parts.append(f"memory {size(used.peak_memory_bytes)}")
    if used.peak_processes is not None:
        parts.append(f"processes {used.peak_processes}")
    return ", ".join(parts)


def milliseconds(value: float) -> str:
    return f"{value:.1f} ms" if value < 10 else f"{value:.0f} ms"  # noqa: PLR2004 - two digits that mean something


def size(count: float) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if count < KIB:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= KIB
    return f"{count:.1f} GiB"


def _headline(outcome: Outcome) -> Line:
    parts = [outcome.tool if outcome.tool_version is None else f"{outcome.tool} {outcome.tool_version}"]
    if outcome.exit_code is not None:
        parts.append(f"exit code {outcome.exit_code}")
    if outcome.error:
        parts.append(f"{outcome.error.error_class}/{outcome.error.code}")
    if outcome.replayed:
        parts.append("replayed: the outcome of an earlier identical call")
    return Line(outcome.state.value, ", ".join(parts), GOOD if succeeded(outcome) else BAD)


def _error(error: ErrorDetail) -> Iterator[Line]:
    yield Line("error", error.message, BAD)
    for violation in error.violations:
        yield Line("violation", f"{violation.pointer or 'the whole'}: {violation.keyword}: {violation.message}", BAD)
    if error.suggestion:
        yield Line("suggestion", error.suggestion, WARN)
    if error.retryable:
        after = f" after {error.retry_after_ms} ms" if error.retry_after_ms is not None else ""
        yield Line("retry", f"can do no harm{after}")
    if error.effect.value != "NONE":
        yield Line("effect", error.effect.value, BAD)


def _stream(name: str, stream: Stream) -> Iterator[Line]:
    facts = [word for word, holds in (("truncated", stream.truncated), ("not UTF-8", stream.lossy)) if holds]
    if facts or stream.ref:
        where = f"; all of it: executor output {stream.ref}" if stream.ref else ""
        yield Line(name, ", ".join([f"{size(stream.total_bytes)}", *facts]) + where, WARN)


def _artifact(artifact: Artifact) -> str:
    return f"{artifact.path}  {size(artifact.size_bytes)}  {artifact.media_type}  {artifact.ref}"
