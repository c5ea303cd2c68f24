from pathlib import Path

import pytest

from executor.bench import roots
from executor.bench.names import SPAWN
from executor.bench.peer import CallFailed
from executor.bench.rows import DATA, HOST, ROWS, Row
from executor.bench.spawned import Spawned, inside, run

FOUND = roots.find(Path("/nowhere"))
PEER = Spawned(SPAWN, lambda _, argv: argv, FOUND)
ENVIRONMENT = FOUND[HOST].environment


async def test_a_command_gives_its_status_and_all_of_its_output():
    assert await run(["/bin/sh", "-c", "echo out; echo err >&2; exit 3"], ENVIRONMENT) == (3, b"out\nerr\n")


async def test_output_larger_than_a_pipe_comes_whole():
    status, output = await run(["/usr/bin/head", "-c", "300000", "/dev/zero"], ENVIRONMENT)
    assert (status, len(output)) == (0, 300_000)


async def test_a_signal_is_a_negative_status():
    assert await run(["/bin/sh", "-c", "kill -9 $$"], ENVIRONMENT) == (-9, b"")


async def test_a_command_has_the_environment_that_it_is_given_and_no_other():
    assert await run(["/usr/bin/env"], {"A": "1"}) == (0, b"A=1\n")


async def test_a_command_that_does_not_exist_fails_by_name():
    with pytest.raises(CallFailed, match="/no/such could not be started: No such file"):
        await run(["/no/such"], ENVIRONMENT)


def test_a_program_that_the_root_does_not_have_fails_by_name():
    with pytest.raises(CallFailed, match="no-such-program is not installed in /"):
        inside(FOUND[HOST], ["no-such-program"])


async def test_a_call_with_other_output_than_its_row_expects_has_failed():
    with pytest.raises(CallFailed, match=r"exit status 0, output b'x\\n'"):
        await PEER.call(Row(name="wrong", tool="shell", argv=("echo", "x"), stdout=b"y\n"))


async def test_a_call_that_does_what_its_row_says_tells_no_parts():
    assert await PEER.call(Row(name="right", tool="shell", argv=("echo", "x"), stdout=b"x\n")) == {}


def test_a_row_with_files_or_of_another_root_is_refused_with_a_reason():
    with_files = [row for row in ROWS if row.files]
    elsewhere = [row for row in ROWS if row.image == DATA]
    assert with_files
    assert elsewhere
    assert all("files" in str(PEER.refuses(row)) for row in with_files)
    assert all("data" in str(PEER.refuses(row)) for row in elsewhere)
