"""What a command reads and writes: byte for byte, in order, apart, and never more than the limit."""

import random

import pytest

from executor.model.run import End, Stop
from executor.model.tool import OutputExcess
from tests.support.bench import Bench
from tests.support.programs import Programs

EVERY_BYTE = bytes(range(256)) * 3 + b"\x00\x00\r\n\xff\xfe"
LIMIT = 10_000


async def test_the_two_streams_stay_apart(bench: Bench, programs: Programs):
    result = await bench.run(programs.say("to stdout", "to stderr", 3))
    assert (result.stdout, result.stderr, result.report.exit_code) == (b"to stdout\n", b"to stderr\n", 3)


@pytest.mark.parametrize("to_stderr", [False, True])
async def test_every_byte_arrives_as_it_was_written(bench: Bench, programs: Programs, to_stderr: bool):  # noqa: FBT001
    result = await bench.run(programs.copy(to_stderr=to_stderr), stdin=EVERY_BYTE)
    assert (result.stderr if to_stderr else result.stdout) == EVERY_BYTE
    assert (result.stdout if to_stderr else result.stderr) == b""


async def test_a_stdin_larger_than_any_pipe_is_read_to_its_end(bench: Bench, programs: Programs):
    sent = random.Random(7).randbytes(3_000_001)  # noqa: S311 - test data
    assert (await bench.run(programs.copy(), stdin=sent)).stdout == sent


async def test_an_empty_stdin_is_at_its_end(bench: Bench, programs: Programs):
    result = await bench.run(programs.copy())
    assert (result.report.exit_code, result.stdout) == (0, b"")


async def test_a_command_need_not_read_its_stdin(bench: Bench, programs: Programs):
    report = (await bench.run(programs.exit(0), stdin=bytes(1_000_000))).report
    assert (report.end, report.exit_code) == (End.EXITED, 0)


async def test_each_stream_keeps_its_order(bench: Bench, programs: Programs):
    result = await bench.run(programs.count(400))
    assert result.stdout == b"".join(b"o%d\n" % number for number in range(1, 401))
    assert result.stderr == b"".join(b"e%d\n" % number for number in range(1, 401))


async def test_an_argument_is_one_literal_value(bench: Bench, programs: Programs):
    words = ("a b", "$HOME", "`id`", ";", "|", "*", '"', "'", "\\", "", "--help", "new\nline", "é\u200f")
    assert (await bench.run(programs.echo(*words))).stdout == " ".join(words).encode() + b"\n"


async def test_output_beyond_the_limit_kills(bench: Bench, programs: Programs):
    result = await bench.run(programs.flood(), output_bytes=LIMIT)
    assert (result.report.end, result.report.stop) == (End.KILLED, Stop.OUTPUT)
    assert result.stdout == (b"y\n" * LIMIT)[:LIMIT]


async def test_both_streams_share_one_output_limit(bench: Bench, programs: Programs):
    result = await bench.run(programs.flood_both(), output_bytes=LIMIT)
    assert (result.report.end, result.report.stop) == (End.KILLED, Stop.OUTPUT)
    assert len(result.stdout) + len(result.stderr) == LIMIT


async def test_cut_output_lets_the_command_run_on(bench: Bench, programs: Programs):
    argv = programs.zeros(30 * LIMIT, code=7)
    result = await bench.run(argv, output_bytes=LIMIT, on_output_excess=OutputExcess.CUT)
    assert (result.report.end, result.report.exit_code) == (End.EXITED, 7)
    assert result.stdout == bytes(LIMIT)
    assert result.report.output_dropped_bytes == 29 * LIMIT


async def test_endless_cut_output_runs_to_the_wall_limit(bench: Bench, programs: Programs):
    result = await bench.run(programs.flood(), output_bytes=LIMIT, on_output_excess=OutputExcess.CUT, wall_seconds=0.4)
    assert (result.report.end, result.report.stop) == (End.KILLED, Stop.WALL)
    assert len(result.stdout) == LIMIT
    assert result.report.output_dropped_bytes > 0
    assert result.seconds < 0.4 + 0.5 + result.report.usage.setup_ms / 1000


@pytest.mark.parametrize("excess", list(OutputExcess))
async def test_output_of_exactly_the_limit_is_no_excess(bench: Bench, programs: Programs, excess: OutputExcess):
    result = await bench.run(programs.zeros(LIMIT), output_bytes=LIMIT, on_output_excess=excess)
    assert (result.report.end, result.report.exit_code, result.report.output_dropped_bytes) == (End.EXITED, 0, 0)
    assert result.stdout == bytes(LIMIT)


async def test_what_was_written_before_a_kill_is_delivered(bench: Bench, programs: Programs):
    result = await bench.run(programs.tree("60.003"), wall_seconds=0.3)
    assert result.stdout == b"ready\n"
