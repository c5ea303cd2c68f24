"""Limits that the kernel keeps; each breach is told by its own fact in the report."""

from executor.model.run import End, Stop
from tests.support.bench import Bench
from tests.support.programs import Programs

MIB = 1024 * 1024


async def test_processor_time_beyond_the_limit_stops_the_tree(bench: Bench, programs: Programs):
    result = await bench.run(programs.use_cpu(), cpu_seconds=0.5)
    assert (result.report.end, result.report.stop) == (End.KILLED, Stop.CPU)
    assert result.seconds < 3.0


async def test_memory_beyond_the_limit_stops_the_tree(bench: Bench, programs: Programs):
    result = await bench.run(programs.use_memory(), memory_bytes=64 * MIB)
    assert (result.report.end, result.report.stop) == (End.KILLED, Stop.MEMORY)
    assert result.report.oom_kills >= 1


async def test_a_refused_process_is_counted(bench: Bench, programs: Programs):
    result = await bench.run(programs.use_processes(), processes=16)
    assert result.report.pids_refused >= 1
    assert (result.report.end, result.report.exit_code != 0) == (End.EXITED, True)
    assert result.stderr


async def test_a_full_workspace_is_told_by_its_mount_point(bench: Bench, programs: Programs):
    result = await bench.run(programs.use_disk(), workspace_bytes=2 * MIB, file_bytes=64 * MIB)
    assert (result.report.end, result.report.exit_code) == (End.EXITED, 1)
    assert result.report.disk_full == ("/workspace",)
    assert b"No space left on device" in result.stderr


async def test_a_run_within_its_limits_reports_no_breach(bench: Bench, programs: Programs):
    report = (await bench.run(programs.write({"a.txt": "a"}))).report
    assert (report.stop, report.oom_kills, report.pids_refused) == (None, 0, 0)
    assert (report.disk_full, report.output_dropped_bytes) == ((), 0)
