"""What the facts of a run mean: the program's own end, a limit, a declared refusal, a command that cannot run. Pure.

Precedence, most certain fact first: the command could not start; we killed the tree, and know why; the kernel killed
for memory (the tree counts as a whole, so the main process's own exit code does not excuse it); signals; refused
processes; full file systems; the manifest's exit codes; and only then the program's own end, whatever its exit code.

A command that is not found or not executable is SANDBOX_UNAVAILABLE with effect NONE: the manifest or the image is
wrong, not the call. The messages tell the two apart, and both from a sandbox that failed, which a backend raises.

Only TIMEOUT may be retryable: the other limits are met again by the same call.
"""

import signal
from dataclasses import dataclass

from executor.model.errors import EffectState, ErrorCode, ErrorDetail
from executor.model.limits import Limits
from executor.model.outcome import State
from executor.model.run import End, RunReport, Stop
from executor.model.tool import Effect, Tool
from executor.result import wording


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    state: State
    exit_code: int | None
    error: ErrorDetail | None


@dataclass(frozen=True, slots=True)
class _Finding:
    code: ErrorCode
    message: str
    suggestion: str


_STOPS = {
    Stop.WALL: ErrorCode.TIMEOUT,
    Stop.CPU: ErrorCode.CPU_LIMIT,
    Stop.MEMORY: ErrorCode.MEMORY_LIMIT,
    Stop.OUTPUT: ErrorCode.OUTPUT_LIMIT,
}
_SIGNALS: dict[int, ErrorCode] = {signal.SIGXCPU: ErrorCode.CPU_LIMIT, signal.SIGXFSZ: ErrorCode.DISK_LIMIT}

_NEARLY = 0.9
"""The kernel counts processor time in ticks."""


def classify(report: RunReport, tool: Tool, limits: Limits) -> Verdict:
    """`limits` are those in force for this run."""
    ran = report.end not in {End.NOT_FOUND, End.NOT_EXECUTABLE}
    finding = _limit(report, limits) if ran else _not_started(report, tool)
    if finding is None:
        return _own_end(report, tool)
    detail = ErrorDetail(
        code=finding.code,
        message=finding.message,
        retryable=finding.code is ErrorCode.TIMEOUT and tool.harmless_to_repeat,
        effect=_effect(tool) if ran else EffectState.NONE,
        suggestion=finding.suggestion,
    )
    return Verdict(state=State.FAILED, exit_code=report.exit_code, error=detail)


def _effect(tool: Tool) -> EffectState:
    return EffectState.NONE if tool.effect is Effect.READ_ONLY else EffectState.POSSIBLE


def _own_end(report: RunReport, tool: Tool) -> Verdict:
    declared = tool.exit_codes.get(report.exit_code) if report.exit_code is not None else None
    if declared is None:
        return Verdict(state=State.COMPLETED, exit_code=report.exit_code, error=None)
    detail = ErrorDetail(
        code=ErrorCode.DECLARED, message=declared.message, effect=_effect(tool), suggestion=declared.suggestion
    )
    return Verdict(state=State.FAILED, exit_code=report.exit_code, error=detail)


def _not_started(report: RunReport, tool: Tool) -> _Finding:
    program = repr(tool.command.argv[0]) if tool.command and tool.command.argv else "the command"
    missing = report.end is End.NOT_FOUND
    problem = "does not exist" if missing else "exists and cannot be executed"
    reason = f" ({report.detail})" if report.detail else ""
    return _Finding(
        ErrorCode.SANDBOX_UNAVAILABLE,
        f"{program} of tool {tool.name!r} {problem} in the image {tool.policy.image!r}{reason}; nothing ran.",
        "Tell the user: the operator must mend the tool's command or its image. Another call will not help.",
    )


def _limit(report: RunReport, limits: Limits) -> _Finding | None:
    if report.end is End.KILLED:
        return _stopped(report, limits)
    if report.oom_kills:
        return _finding(ErrorCode.MEMORY_LIMIT, report, limits)
    if report.end is End.SIGNALED:
        return _signalled(report, limits)
    return _starved(report, limits) if report.exit_code else None


def _stopped(report: RunReport, limits: Limits) -> _Finding:
    if report.stop is None:
        return _Finding(
            ErrorCode.SANDBOX_UNAVAILABLE,
            "The sandbox was killed from outside while the tool ran, and not for any of its limits.",
            "Tell the user: something on the host ended the sandbox.",
        )
    return _finding(_STOPS[report.stop], report, limits)


def _signalled(report: RunReport, limits: Limits) -> _Finding:
    number = report.signal or 0
    code = _SIGNALS.get(number)
    if code and not _contradicted(code, report, limits):
        return _finding(code, report, limits)
    starved = _starved(report, limits) if report.pids_refused or number == signal.SIGBUS else None
    if starved:  # SIGBUS is what a mapped file on a full tmpfs gives
        return starved
    return _Finding(
        ErrorCode.CRASHED,
        f"The program was ended by signal {_signal_name(number)}, {wording.not_met(code, limits)}.",
        wording.crash_suggestion(code, limits),
    )


def _contradicted(code: ErrorCode, report: RunReport, limits: Limits) -> bool:
    """Any program can send itself the signal of a limit; where the kernel counted, it knows whether one was met.

    A file is in memory. The exception, a file with holes, is what the suggestion for a crash by this signal tells of.
    """
    used = report.usage
    if code is ErrorCode.CPU_LIMIT:
        return used.cpu_ms is not None and used.cpu_ms < _NEARLY * 1000 * limits.cpu_seconds
    return used.peak_memory_bytes is not None and used.peak_memory_bytes < limits.file_bytes


def _starved(report: RunReport, limits: Limits) -> _Finding | None:
    """The program failed, and the kernel had refused it something."""
    if report.pids_refused:
        return _finding(ErrorCode.PIDS_LIMIT, report, limits)
    return _finding(ErrorCode.DISK_LIMIT, report, limits) if report.disk_full else None


def _finding(code: ErrorCode, report: RunReport, limits: Limits) -> _Finding:
    return _Finding(code, wording.message(code, report, limits), wording.SUGGESTIONS[code])


def _signal_name(number: int) -> str:
    try:
        return f"{signal.Signals(number).name} ({number})"
    except ValueError:
        return str(number)  # a real-time signal between the two that have names
