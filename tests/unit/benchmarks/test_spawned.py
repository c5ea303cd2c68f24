import pytest

from benchmarks.harness.lines import SPAWN
from benchmarks.harness.peer import CallFailed
from benchmarks.harness.rows import ROWS, Row
from benchmarks.harness.spawned import Spawned, run


async def test_a_command_gives_its_status_and_all_of_its_output():
    assert await run(["sh", "-c", "echo out; echo err >&2; exit 3"]) == (3, b"out\nerr\n")


async def test_output_larger_than_a_pipe_comes_whole():
    status, output = await run(["head", "-c", "300000", "/dev/zero"])
    assert (status, len(output)) == (0, 300_000)


async def test_a_signal_is_a_negative_status():
    assert await run(["sh", "-c", "kill -9 $$"]) == (-9, b"")


async def test_a_command_that_does_not_exist_fails_by_name():
    with pytest.raises(CallFailed, match="no-such-command could not be started"):
        await run(["no-such-command"])


async def test_a_call_with_other_output_than_its_row_expects_has_failed():
    peer = Spawned(SPAWN, ())
    with pytest.raises(CallFailed, match=r"exit status 0, output b'x\\n'"):
        await peer.call(Row(name="wrong", tool="shell", argv=("echo", "x"), stdout=b"y\n"))


async def test_a_call_that_does_what_its_row_says_tells_no_parts():
    assert await Spawned(SPAWN, ()).call(Row(name="right", tool="shell", argv=("echo", "x"), stdout=b"x\n")) == {}


def test_a_row_with_files_is_refused_with_a_reason():
    with_files = [row for row in ROWS if row.files]
    assert with_files
    assert all("files" in str(Spawned(SPAWN, ()).refuses(row)) for row in with_files)
