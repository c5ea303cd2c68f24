"""How a limit that was met is put into words: which limit, its value in human units, and what to do about it."""

from executor.model.errors import ErrorCode
from executor.model.limits import KIB, MIB, Limits
from executor.model.run import RunReport

SUGGESTIONS = {
    ErrorCode.TIMEOUT: "Give it less work, or more time where the tool and the deadline of the call allow it.",
    ErrorCode.CPU_LIMIT: "Change the program so that it computes less: the same call will meet the same limit.",
    ErrorCode.MEMORY_LIMIT: "Change the program so that it holds less at one time: the same call will meet the limit.",
    ErrorCode.PIDS_LIMIT: "Start fewer processes and threads, and wait for those that have ended.",
    ErrorCode.DISK_LIMIT: "Write less, or delete files that are no longer needed.",
    ErrorCode.OUTPUT_LIMIT: "Print less, or write to a file below /workspace and collect it.",
}

_CRASH = "Mend the program: look at stderr, and for native code, recursion or a signal that it sends to itself."


def not_met(signal_of: ErrorCode | None, limits: Limits) -> str:
    """Of a signal that ended a program, and the limit that the kernel uses it for."""
    if signal_of is ErrorCode.DISK_LIMIT:
        return f"though it had not written as much as {size(limits.file_bytes)} (file_bytes)"
    return "which no limit of ours sent"


def crash_suggestion(signal_of: ErrorCode | None, limits: Limits) -> str:
    """`signal_of`: the limit that the kernel uses the signal for, and that was not met."""
    if signal_of is ErrorCode.CPU_LIMIT:
        return "Mend the program: it sent itself this signal, or lowered its own processor time (ulimit -t)."
    if signal_of is ErrorCode.DISK_LIMIT:
        return (
            "Mend the program: it sent itself this signal, lowered its own largest file (ulimit -f), or made a file "
            f"with holes that is larger than {size(limits.file_bytes)} (file_bytes)."
        )
    return _CRASH


def message(code: ErrorCode, report: RunReport, limits: Limits) -> str:
    """For the codes of `SUGGESTIONS`."""
    return {
        ErrorCode.TIMEOUT: _timeout,
        ErrorCode.CPU_LIMIT: _cpu,
        ErrorCode.MEMORY_LIMIT: _memory,
        ErrorCode.PIDS_LIMIT: _processes,
        ErrorCode.DISK_LIMIT: _disk,
        ErrorCode.OUTPUT_LIMIT: _output,
    }[code](report, limits)


def size(value: int) -> str:
    for unit, name in ((1024 * MIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if value >= unit:
            return f"{value / unit:.4g} {name}"
    return f"{value} bytes"


def _timeout(report: RunReport, limits: Limits) -> str:
    before = ""
    if report.oom_kills:
        before = (
            f" Before that the kernel had killed {report.oom_kills} of its processes for the memory limit of "
            f"{size(limits.memory_bytes)} (memory_bytes)."
        )
    elif report.pids_refused:
        before = f" Before that: {_processes(report, limits)}"
    return (
        f"The program ran longer than its wall time of {limits.wall_seconds:.4g} s (wall_seconds) and was killed with "
        f"its process tree.{before}"
    )


def _cpu(_report: RunReport, limits: Limits) -> str:
    return f"The program used up its processor time of {limits.cpu_seconds:.4g} s (cpu_seconds)."


def _memory(_report: RunReport, limits: Limits) -> str:
    return (
        f"The program needed more than its {size(limits.memory_bytes)} of memory (memory_bytes), and the kernel killed "
        "it. What it writes to /workspace, /tmp and /dev/shm counts as memory."
    )


def _processes(report: RunReport, limits: Limits) -> str:
    return (
        f"The kernel refused the program a new process or thread {report.pids_refused} times: it may have "
        f"{limits.processes} at one time (processes)."
    )


def _output(_report: RunReport, limits: Limits) -> str:
    return (
        f"The program wrote more than {size(limits.output_bytes)} to stdout and stderr together (output_bytes) and was "
        "killed."
    )


def _disk(report: RunReport, limits: Limits) -> str:
    if not report.disk_full:
        return f"The program wrote a file larger than {size(limits.file_bytes)} (file_bytes)."
    return " ".join(_mount(mount, limits) for mount in report.disk_full)


def _mount(mount: str, limits: Limits) -> str:
    name = "workspace" if mount == "/workspace" else "tmp"
    volume, inodes = getattr(limits, f"{name}_bytes"), getattr(limits, f"{name}_inodes")
    return f"{mount} was full: it holds {size(volume)} ({name}_bytes) and {inodes} files ({name}_inodes)."
