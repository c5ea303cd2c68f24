"""No sandbox sees another one, or anything of the process that runs it."""

import asyncio

import pytest

from tests.support.bench import Bench, Heard, process
from tests.support.programs import Programs

MOUNTS = ("/workspace", "/tmp", "/dev/shm")


def variables(stdout: bytes) -> dict[str, str]:
    return dict(item.split("=", 1) for item in stdout.decode().split("\0") if item)


async def test_the_environment_is_the_base_and_what_was_given(
    bench: Bench, programs: Programs, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SERVER_SECRET", "canary")
    given = {"GREETING": "two words", "EMPTY": "", "LINES": "a\nb=c", "SIGN": "é"}
    base = variables((await bench.run(programs.environment())).stdout)
    seen = variables((await bench.run(programs.environment(), environment=given)).stdout)
    assert seen == base | given
    assert {"PATH", "HOME", "LANG", "TMPDIR"} <= set(base)
    assert "canary" not in base.values()
    assert base["TMPDIR"] == "/tmp"


async def test_the_command_starts_in_the_workspace(bench: Bench, programs: Programs):
    assert (await bench.run(programs.directory())).stdout == b"/workspace\n"


async def test_a_sandbox_sees_nothing_of_an_earlier_one(bench: Bench, programs: Programs):
    left = {f"{mount}/left.txt": "left" for mount in MOUNTS}
    wrote = await bench.run(programs.write(left))
    seen = await bench.run(programs.list(*MOUNTS))
    assert (wrote.report.exit_code, wrote.stderr) == (0, b"")
    assert (seen.report.exit_code, seen.stdout) == (0, b"")


async def test_a_sandbox_sees_nothing_of_one_that_is_open(bench: Bench, programs: Programs):
    async with bench.sandbox() as other:
        await other.run(process(programs.write({f"{mount}/left.txt": "left" for mount in MOUNTS})), Heard())
        assert (await bench.run(programs.list(*MOUNTS))).stdout == b""


async def test_many_sandboxes_at_once_do_not_mix(bench: Bench, programs: Programs):
    async def one(number: int) -> tuple[bytes, dict[str, bytes]]:
        token = f"sandbox-{number}." * 2000
        result = await bench.run(
            programs.copy(), stdin=token.encode(), files=(), environment={"NUMBER": str(number)}, collect=("**",)
        )
        return result.stdout, {file.path: file.content for file in result.collection.files}

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(number)) for number in range(20)]
    assert [task.result() for task in tasks] == [(f"sandbox-{number}.".encode() * 2000, {}) for number in range(20)]


async def test_the_isolation_in_force_is_told(bench: Bench):
    async with bench.sandbox(wall_seconds=7.0) as sandbox:
        isolation = sandbox.isolation
    assert (isolation.backend, isolation.image, isolation.network) == (bench.backend.name, "host", "none")
    assert isolation.limits.wall_seconds == 7.0
    assert isolation.image_digest
