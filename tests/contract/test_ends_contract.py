"""How a run can end: each kind has its own report, and none looks like another."""

import signal

import pytest

from executor.model.invocation import InputFile
from executor.model.run import End, Stop
from tests.support.bench import Bench
from tests.support.programs import Programs

GRACE_SECONDS = 0.5
"""Allowed between a limit and the return of `run`."""


@pytest.mark.parametrize("code", [0, 1, 2, 127, 255])
async def test_an_exit_code_is_reported_as_it_is(bench: Bench, programs: Programs, code: int):
    report = (await bench.run(programs.exit(code))).report
    assert (report.end, report.exit_code, report.signal, report.stop) == (End.EXITED, code, None, None)


@pytest.mark.parametrize("name", ["SEGV", "KILL", "TERM"])
async def test_death_by_a_signal_is_told_apart_from_every_exit(bench: Bench, programs: Programs, name: str):
    report = (await bench.run(programs.die_of(name))).report
    expected = signal.Signals[f"SIG{name}"].value
    assert (report.end, report.exit_code, report.signal, report.stop) == (End.SIGNALED, None, expected, None)


@pytest.mark.not_of("native-template")  # there it is a Python program that finds it out
@pytest.mark.parametrize("program", ["no-such-program", "/no/such/program", "/workspace/absent"])
async def test_a_program_that_does_not_exist_is_not_found(bench: Bench, program: str):
    result = await bench.run((program, "argument"))
    assert (result.report.end, result.report.exit_code, result.report.signal) == (End.NOT_FOUND, None, None)
    assert result.report.detail
    assert (result.stdout, result.stderr) == (b"", b"")


@pytest.mark.not_of("native-template")  # there it is a Python program that finds it out
async def test_a_file_without_the_executable_bit_is_not_executable(bench: Bench, programs: Programs):
    plain = InputFile(path="plain", content=programs.script("never"))
    result = await bench.run(("/workspace/plain",), files=(plain,))
    assert (result.report.end, result.report.exit_code) == (End.NOT_EXECUTABLE, None)
    assert result.report.detail
    assert (result.stdout, result.stderr) == (b"", b"")


@pytest.mark.not_of("native-template")  # there it is a Python program that finds it out
async def test_an_executable_file_that_is_no_program_is_not_executable(bench: Bench):
    garbage = InputFile(path="garbage", content=b"\x00\x01\x02 not a program", executable=True)
    report = (await bench.run(("/workspace/garbage",), files=(garbage,))).report
    assert (report.end, report.exit_code) == (End.NOT_EXECUTABLE, None)


async def test_a_run_ends_at_its_wall_limit(bench: Bench, programs: Programs):
    result = await bench.run(programs.sleep("60"), wall_seconds=0.5)
    assert (result.report.end, result.report.stop, result.report.exit_code) == (End.KILLED, Stop.WALL, None)
    assert 0.5 <= result.seconds < 0.5 + GRACE_SECONDS + result.report.usage.setup_ms / 1000


async def test_a_tree_that_ignores_sigterm_ends_at_the_wall_limit_all_the_same(bench: Bench, programs: Programs):
    result = await bench.run(programs.tree("60.001"), wall_seconds=0.5)
    assert (result.report.end, result.report.stop) == (End.KILLED, Stop.WALL)
    assert result.stdout == b"ready\n"
    assert result.seconds < 0.5 + GRACE_SECONDS + result.report.usage.setup_ms / 1000


async def test_the_run_ends_with_its_main_process_whoever_still_holds_the_streams(bench: Bench, programs: Programs):
    result = await bench.run(programs.leave_behind("60.002"))
    assert (result.report.end, result.report.exit_code) == (End.EXITED, 0)
    assert result.stdout == b"done\n"
    assert result.seconds < 1.0 + result.report.usage.setup_ms / 1000


async def test_the_wall_time_is_that_of_the_command(bench: Bench, programs: Programs):
    result = await bench.run(programs.sleep("0.3"))
    assert (result.report.end, result.report.exit_code) == (End.EXITED, 0)
    assert 295 <= result.report.usage.wall_ms <= result.seconds * 1000
