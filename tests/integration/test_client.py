"""The client's side of things, through a real server on a Unix socket."""

import asyncio
import inspect
import os
import sys
import textwrap
from pathlib import Path

import pytest

from executor.client import ExecutorClient, MalformedRequest
from executor.model.errors import BadRequest, NotFound, Unavailable
from executor.model.tool import Effect
from tests.support.served import Served, serving


def example() -> str:
    """The indented part of the class docstring."""
    lines = inspect.getdoc(ExecutorClient).splitlines()
    return textwrap.dedent("\n".join(line for line in lines if line.startswith("    ") or not line))


async def test_the_example_of_the_docstring_runs(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/executor/executor.sock"
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    async with serving(tmp_path, addresses=[address]):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", example(), env=environment, stdout=asyncio.subprocess.PIPE
        )
        out, _ = await process.communicate()
    assert (process.returncode, out) == (0, b"COMPLETED 0 42\n\n")


async def test_tools_are_listed_by_name_in_their_newest_version(client: ExecutorClient) -> None:
    tools = await client.list_tools()
    assert [tool.name for tool in tools] == sorted(tool.name for tool in tools)
    echo = next(tool for tool in tools if tool.name == "echo")
    assert (echo.version, echo.effect, echo.unavailable) == ("1.0.0", Effect.READ_ONLY, None)
    assert echo.parameters["required"] == ["text"]
    assert echo.examples == ({"text": "a"},)
    assert echo.limits.wall_seconds == 20.0


async def test_every_page_of_the_list_is_read(served: Served, client: ExecutorClient) -> None:
    from executor.v1 import executor_pb2 as pb  # noqa: PLC0415 - only here does a test speak for a page

    names, token = [], ""
    while True:
        page = await client._stub.ListTools(pb.ListToolsRequest(page_size=3, page_token=token))
        names.extend(tool.name for tool in page.tools)
        token = page.next_page_token
        if not token:
            break
        assert len(page.tools) == 3
    assert names == [tool.name for tool in await client.list_tools()]


async def test_one_tool_is_shown_with_its_versions(client: ExecutorClient) -> None:
    assert (await client.get_tool("echo", "0.9.0")).version == "0.9.0"
    assert await client.versions("echo") == ("1.0.0", "0.9.0")


@pytest.mark.parametrize(("name", "version"), [("ecko", None), ("echo", "7.0.0")])
async def test_a_tool_that_does_not_exist_is_not_found(client: ExecutorClient, name: str, version: str | None) -> None:
    with pytest.raises(NotFound, match="echo"):
        await client.get_tool(name, version)


async def test_output_is_read_by_bytes_lines_and_expression(client: ExecutorClient) -> None:
    text = "".join(f"line {number}\n" for number in range(5000))
    outcome = await client.execute("echo", {"text": text})
    ref = outcome.stdout.ref
    assert ref is not None

    async def read(**part: object) -> str:
        return b"".join([piece async for piece in client.read_output(ref, **part)]).decode()

    assert await read() == text + "\n"
    assert await read(bytes=(5, 8)) == "0\nl"
    assert await read(lines=(4998, None)) == "line 4998\nline 4999\n\n"
    assert await read(regex="^line 44.7$") == "".join(f"44{n}7:line 44{n}7\n" for n in range(10))
    assert await read(bytes=(9_999_999, None)) == ""


@pytest.mark.parametrize(
    "part", [{"bytes": (5, 3)}, {"lines": (-1, None)}, {"regex": "("}, {"lines": (0, 1), "regex": "a"}]
)
async def test_a_part_that_makes_no_sense_is_refused(client: ExecutorClient, part: dict[str, object]) -> None:
    ref = (await client.execute("zeros", {"count": 70_000})).stdout.ref
    with pytest.raises(BadRequest):
        _ = [piece async for piece in client.read_output(ref, **part)]


@pytest.mark.parametrize("ref", ["", "out_nothing", "../../etc/passwd", "out_" + "a" * 27])
async def test_a_ref_that_does_not_exist_is_not_found(client: ExecutorClient, ref: str) -> None:
    with pytest.raises(NotFound):
        _ = [piece async for piece in client.read_output(ref)]


async def test_a_cancel_needs_one_id(client: ExecutorClient) -> None:
    with pytest.raises(MalformedRequest, match="target"):
        await client.cancel()


@pytest.mark.parametrize("arguments", [{"text": float("nan")}, {"text": object()}])
async def test_arguments_that_are_no_json_are_refused_before_anything_is_sent(
    client: ExecutorClient, arguments: dict[str, object]
) -> None:
    with pytest.raises(MalformedRequest, match="arguments_json"):
        await client.execute("echo", arguments)


async def test_nobody_there_is_told_soon_and_after_some_attempts(tmp_path: Path) -> None:
    async with ExecutorClient(f"unix:{tmp_path}/absent.sock") as client, asyncio.timeout(4):
        with pytest.raises(Unavailable, match=r"absent\.sock; nothing was sent"):
            await client.execute("echo", {"text": "a"})
        with pytest.raises(Unavailable):
            await client.list_tools()


async def test_a_service_that_starts_meanwhile_is_found(tmp_path: Path) -> None:
    async with ExecutorClient(f"unix:{tmp_path}/run/executor.sock") as client:
        listing = asyncio.create_task(client.execute("echo", {"text": "a"}))
        async with serving(tmp_path):
            assert (await listing).stdout.text == "a\n"


async def test_a_client_survives_the_restart_of_its_service(tmp_path: Path) -> None:
    async with ExecutorClient(f"unix:{tmp_path}/run/executor.sock") as client:
        for _ in range(2):
            async with serving(tmp_path):
                assert (await client.execute("echo", {"text": "a"})).exit_code == 0
