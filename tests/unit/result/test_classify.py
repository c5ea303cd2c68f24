import signal
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor.model.errors import CLASS_OF, EffectState, ErrorClass, ErrorCode
from executor.model.limits import MIB, Limits
from executor.model.outcome import State
from executor.model.run import End, RunReport, Stop, StreamName, Usage
from executor.model.tool import Command, DeclaredExit, Effect, Policy, Tool
from executor.result import wording
from executor.result.classify import classify

LIMITS = Limits(wall_seconds=2.5, cpu_seconds=3, memory_bytes=512 * 1024**2, processes=64, output_bytes=1536)
TOOL = Tool(
    name="probe",
    version="1.0.0",
    description="",
    parameters={},
    effect=Effect.READ_ONLY,
    policy=Policy(image="host", limits=LIMITS),
    command=Command(argv=("program", "{{code}}")),
    exit_codes={3: DeclaredExit(message="There is no such record.", suggestion="Look for another.")},
)
MUTATING = replace(TOOL, effect=Effect.MUTATING)
IDEMPOTENT = replace(MUTATING, idempotent=True)


def exited(code: int, **facts) -> RunReport:
    return RunReport(end=End.EXITED, exit_code=code, **facts)


def signalled(number: int, **facts) -> RunReport:
    return RunReport(end=End.SIGNALED, signal=number, **facts)


def killed(stop: Stop, **facts) -> RunReport:
    return RunReport(end=End.KILLED, stop=stop, **facts)


TABLE = {
    "wall time": (killed(Stop.WALL), ErrorCode.TIMEOUT, "2.5 s (wall_seconds)"),
    "wall time after an oom kill": (killed(Stop.WALL, oom_kills=1), ErrorCode.TIMEOUT, "512 MiB (memory_bytes)"),
    "wall time after refused forks": (killed(Stop.WALL, pids_refused=7), ErrorCode.TIMEOUT, "64 at one time"),
    "processor time": (killed(Stop.CPU), ErrorCode.CPU_LIMIT, "3 s (cpu_seconds)"),
    "processor time by signal": (signalled(signal.SIGXCPU), ErrorCode.CPU_LIMIT, "3 s (cpu_seconds)"),
    "memory": (killed(Stop.MEMORY), ErrorCode.MEMORY_LIMIT, "512 MiB of memory (memory_bytes)"),
    "memory by signal": (signalled(9, oom_kills=1), ErrorCode.MEMORY_LIMIT, "512 MiB of memory (memory_bytes)"),
    "memory through a shell": (exited(137, oom_kills=1), ErrorCode.MEMORY_LIMIT, "512 MiB of memory (memory_bytes)"),
    "memory and a failure": (exited(1, oom_kills=2), ErrorCode.MEMORY_LIMIT, "512 MiB of memory (memory_bytes)"),
    "memory of a child, exit 0": (exited(0, oom_kills=1), ErrorCode.MEMORY_LIMIT, "512 MiB of memory (memory_bytes)"),
    "output": (killed(Stop.OUTPUT, output_dropped={StreamName.STDOUT: 9}), ErrorCode.OUTPUT_LIMIT, "1.5 KiB"),
    "processes and a failure": (exited(1, pids_refused=7), ErrorCode.PIDS_LIMIT, "7 times"),
    "processes and a signal": (signalled(6, pids_refused=7), ErrorCode.PIDS_LIMIT, "64 at one time (processes)"),
    "workspace full": (exited(1, disk_full=("/workspace",)), ErrorCode.DISK_LIMIT, "/workspace was full: it holds 64"),
    "tmp full": (exited(1, disk_full=("/tmp",)), ErrorCode.DISK_LIMIT, "/tmp was full: it holds 64 MiB (tmp_bytes)"),
    "shm full": (signalled(signal.SIGBUS, disk_full=("/dev/shm",)), ErrorCode.DISK_LIMIT, "/dev/shm was full"),
    "large file": (signalled(signal.SIGXFSZ), ErrorCode.DISK_LIMIT, "64 MiB (file_bytes)"),
    "segmentation fault": (signalled(signal.SIGSEGV), ErrorCode.CRASHED, "SIGSEGV (11)"),
    "kill by itself": (signalled(signal.SIGKILL), ErrorCode.CRASHED, "SIGKILL (9)"),
    "unnamed signal": (signalled(40), ErrorCode.CRASHED, "signal 40"),
    "fault on a full disk": (signalled(11, disk_full=("/tmp",)), ErrorCode.CRASHED, "SIGSEGV"),
    "not found": (RunReport(end=End.NOT_FOUND, detail="ENOENT"), ErrorCode.SANDBOX_UNAVAILABLE, "does not exist"),
    "not executable": (RunReport(end=End.NOT_EXECUTABLE), ErrorCode.SANDBOX_UNAVAILABLE, "cannot be executed"),
    "killed by nobody": (RunReport(end=End.KILLED), ErrorCode.SANDBOX_UNAVAILABLE, "from outside"),
    "declared": (exited(3), ErrorCode.DECLARED, "There is no such record."),
}


@pytest.mark.parametrize("case", TABLE)
def test_each_fact_of_the_kernel_has_its_code_and_names_its_limit(case):
    report, code, words = TABLE[case]
    verdict = classify(report, TOOL, LIMITS)
    assert verdict.state is State.FAILED
    assert verdict.error is not None
    assert verdict.error.code is code
    assert words in verdict.error.message
    assert verdict.error.suggestion
    assert verdict.exit_code == report.exit_code


def test_the_table_covers_every_code_that_a_run_can_end_with():
    elsewhere = {ErrorCode.EGRESS_DENIED, ErrorCode.OUTCOME_UNKNOWN}
    environment = {code for code, kind in CLASS_OF.items() if kind is ErrorClass.ENVIRONMENT}
    expected = environment - elsewhere | {ErrorCode.TIMEOUT, ErrorCode.DECLARED}
    assert {code for _, code, _ in TABLE.values()} == expected
    assert set(wording.SUGGESTIONS) <= expected


@pytest.mark.parametrize("code", [0, 1, 2, 126, 127, 137, 139, 152, 255])
def test_an_exit_of_its_own_is_completed_whatever_the_code(code):
    verdict = classify(exited(code), TOOL, LIMITS)
    assert (verdict.state, verdict.exit_code, verdict.error) == (State.COMPLETED, code, None)


@pytest.mark.parametrize("facts", [{"pids_refused": 3}, {"disk_full": ("/tmp",)}])
def test_a_program_that_copes_with_a_refusal_and_exits_0_is_completed(facts):
    assert classify(exited(0, **facts), TOOL, LIMITS).state is State.COMPLETED


def test_the_kinds_of_exit_are_distinct_results():
    reports = [
        exited(0),
        exited(1),
        exited(255),
        signalled(signal.SIGSEGV),
        RunReport(end=End.NOT_FOUND),
        RunReport(end=End.NOT_EXECUTABLE),
        RunReport(end=End.KILLED),
    ]
    verdicts = [classify(report, TOOL, LIMITS) for report in reports]
    assert len({(v.state, v.exit_code, v.error and (v.error.code, v.error.message)) for v in verdicts}) == 7


@pytest.mark.parametrize(
    ("tool", "retryable", "effect"),
    [
        (TOOL, True, EffectState.NONE),
        (IDEMPOTENT, True, EffectState.POSSIBLE),
        (MUTATING, False, EffectState.POSSIBLE),
        (replace(TOOL, effect=Effect.DESTRUCTIVE), False, EffectState.POSSIBLE),
    ],
)
def test_a_timeout_is_retryable_only_where_a_second_run_does_no_harm(tool, retryable, effect):
    error = classify(killed(Stop.WALL), tool, LIMITS).error
    assert error is not None
    assert (error.retryable, error.effect) == (retryable, effect)


def test_a_command_that_never_started_had_no_effect():
    for end in (End.NOT_FOUND, End.NOT_EXECUTABLE):
        error = classify(RunReport(end=end, detail="why"), MUTATING, LIMITS).error
        assert error is not None
        assert error.effect is EffectState.NONE
        assert "'program'" in error.message
        assert "'host'" in error.message
        assert "(why)" in error.message


@given(
    st.builds(
        RunReport,
        end=st.sampled_from(End),
        exit_code=st.none() | st.integers(0, 255),
        signal=st.none() | st.integers(1, 64),
        stop=st.none() | st.sampled_from(Stop),
        oom_kills=st.integers(0, 2),
        pids_refused=st.integers(0, 2),
        disk_full=st.sampled_from([(), ("/workspace",), ("/tmp", "/dev/shm")]),
    ),
    st.sampled_from([TOOL, MUTATING, IDEMPOTENT]),
)
def test_every_report_has_a_verdict_and_only_a_harmless_repeat_is_retryable(report, tool):
    verdict = classify(report, tool, LIMITS)
    assert (verdict.error is None) == (verdict.state is State.COMPLETED)
    if verdict.error and verdict.error.retryable:
        assert tool.harmless_to_repeat
        assert verdict.error.error_class is ErrorClass.TRANSIENT


@pytest.mark.parametrize(
    ("value", "words"), [(1, "1 bytes"), (1024, "1 KiB"), (1536, "1.5 KiB"), (64 * 1024**2, "64 MiB"), (2**31, "2 GiB")]
)
def test_sizes_are_told_in_human_units(value, words):
    assert wording.size(value) == words


@pytest.mark.parametrize(
    ("number", "usage", "words"),
    [
        (signal.SIGXCPU, Usage(cpu_ms=32), "ulimit -t"),
        (signal.SIGXCPU, Usage(cpu_ms=2600), "ulimit -t"),
        (signal.SIGXCPU, Usage(cpu_ms=0.0), "ulimit -t"),
        (signal.SIGXFSZ, Usage(peak_memory_bytes=3 * MIB), "64 MiB (file_bytes)"),
        (signal.SIGXFSZ, Usage(peak_memory_bytes=64 * MIB - 1), "64 MiB (file_bytes)"),
    ],
)
def test_the_signal_of_a_limit_that_was_not_met_is_a_crash_by_its_name(number, usage, words):
    error = classify(signalled(number, usage=usage), TOOL, LIMITS).error
    assert error is not None
    assert error.code is ErrorCode.CRASHED
    assert f"{signal.Signals(number).name} ({number})" in error.message
    assert error.suggestion is not None
    assert words in error.suggestion


@pytest.mark.parametrize(
    ("number", "usage", "code"),
    [
        (signal.SIGXCPU, Usage(cpu_ms=1000 * LIMITS.cpu_seconds), ErrorCode.CPU_LIMIT),
        (signal.SIGXCPU, Usage(cpu_ms=990 * LIMITS.cpu_seconds), ErrorCode.CPU_LIMIT),
        (signal.SIGXFSZ, Usage(peak_memory_bytes=64 * MIB), ErrorCode.DISK_LIMIT),
        (signal.SIGXCPU, Usage(), ErrorCode.CPU_LIMIT),
        (signal.SIGXFSZ, Usage(), ErrorCode.DISK_LIMIT),
    ],
)
def test_the_signal_of_a_limit_is_believed_where_no_count_contradicts_it(number, usage, code):
    error = classify(signalled(number, usage=usage), TOOL, LIMITS).error
    assert error is not None
    assert error.code is code
