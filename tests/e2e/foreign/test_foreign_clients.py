"""The contract as strangers see it: Node.js with the proto file, and buf with nothing but reflection."""

import asyncio
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.served import Served

HERE = Path(__file__).parent
PROTO = HERE.parents[2] / "proto" / "executor" / "v1" / "executor.proto"
BUF = Path(sys.executable).parent / "buf"


async def output_of(*argv: str | Path, directory: Path, code: int = 0) -> bytes:
    process = await asyncio.create_subprocess_exec(
        *argv, cwd=directory, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(90):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == code, err.decode()
    return out if code == 0 else err


async def ran_with_node(address: str, directory: Path) -> dict[str, Any]:
    for name in ("package.json", "package-lock.json", "client.mjs", "health.proto"):
        shutil.copy(HERE / name, directory)
    await output_of("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", directory=directory)
    return json.loads(await output_of("node", "client.mjs", address, PROTO, "health.proto", directory=directory))


@pytest.mark.parametrize("way", ["unix", "tcp"])
async def test_a_node_client_calls_streams_lists_and_cancels(served: Served, tmp_path: Path, way: str) -> None:
    directory = tmp_path / "node"
    directory.mkdir()
    results = await ran_with_node(served.address if way == "unix" else served.tcp_address, directory)
    assert results["health"] == {"status": "SERVING"}
    assert "echo" in results["tools"]
    assert results["execute"]["state"] == "COMPLETED"
    assert results["execute"]["stdout"]["text"] == "grüße\n"
    assert results["execute"]["call_id"] == "from-node"
    assert results["failed"]["error"]["code"] == "UNKNOWN_TOOL"
    assert results["failed"]["error"]["class"] == "INVALID_ARGUMENT"
    assert results["stream"]["kinds"] == ["accepted", "started", "output", "outcome"]
    assert results["stream"]["outcome"]["stdout"]["text"] == "streamed\n"
    assert results["refused"] == {"code": "INVALID_ARGUMENT", "details": "invocation: is missing"}
    assert results["cancelled"]["outcome"]["state"] == "CANCELLED"


async def buf(served: Served, method: str, request: dict[str, Any], directory: Path, code: int = 0) -> bytes:
    url = f"http://{served.tcp_address}/executor.v1.ExecutorService/{method}"
    argv = (BUF, "curl", "--protocol", "grpc", "--http2-prior-knowledge", "--reflect", "-d", json.dumps(request), url)
    return await output_of(*argv, directory=directory, code=code)


async def test_buf_curl_executes_by_reflection_alone(served: Served, tmp_path: Path) -> None:
    request = {"invocation": {"tool": "echo", "argumentsJson": '{"text": "hello"}'}}
    answer = json.loads(await buf(served, "Execute", request, tmp_path))
    assert answer["outcome"]["state"] == "COMPLETED"
    assert answer["outcome"]["stdout"]["text"] == "hello\n"


async def test_buf_curl_shows_the_details_of_a_refusal(served: Served, tmp_path: Path) -> None:
    request = {"invocation": {"tool": "echo", "traceId": "no"}}
    answer = (await buf(served, "Execute", request, tmp_path, code=24)).decode()  # eight times the gRPC code
    assert "invocation.trace_id" in answer
