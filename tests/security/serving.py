"""A real server as a process of its own: how the probes start it, ask after its health and stop it."""

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from executor.settings import load

START_SECONDS = 30.0
STOP_SECONDS = 30.0
HEALTH_SECONDS = 1.0
POLL_SECONDS = 0.05


class NotServing(Exception):
    """The server ended, or did not come up in time; `str()` is what it said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    process: "subprocess.Popen[bytes]"
    address: str
    directory: Path
    """Everything of it: `state`, `tmp` (its TMPDIR), `log`, `s.sock`."""
    channel: grpc.Channel
    """For health checks, open as long as the server runs, so that a check opens no connection of its own."""
    pool_size: int
    """Sandboxes that it keeps parked at most."""
    pool_least: int
    """And of each kind at least."""

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def state_dir(self) -> Path:
        return self.directory / "state"

    @property
    def log(self) -> str:
        return (self.directory / "log").read_text(encoding="utf-8", errors="replace")

    def healthy(self, timeout_seconds: float = HEALTH_SECONDS) -> bool:
        """Whether it answers SERVING in that time."""
        request = health_pb2.HealthCheckRequest(service="")
        try:
            answer = health_pb2_grpc.HealthStub(self.channel).Check(request, timeout=timeout_seconds)
        except grpc.RpcError:
            return False
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)

    def stop(self) -> int:
        """Its exit status after SIGTERM."""
        self.channel.close()
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_SECONDS)
        finally:
            self.kill()

    def kill(self) -> None:
        self.channel.close()
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def start(directory: Path, catalogue: Path, *options: str, environment: dict[str, str] | None = None) -> Server:
    """Below `directory`, with `environment` on top of a small one, and the image `host` alone. Raises NotServing."""
    temporary = directory / "tmp"
    temporary.mkdir()
    chosen = {
        "HOME": str(directory),
        "TMPDIR": str(temporary),
        "EXECUTOR_IMAGES_DIR": str(directory / "images"),
        **(environment or {}),
    }
    address = f"unix:{directory / 's.sock'}"
    command = [sys.executable, "-m", "executor", "serve", "--listen", address]
    command += ["--state-dir", str(directory / "state"), "--catalogue", str(catalogue), *options]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**_inherited(), **chosen},
            cwd=Path(__file__).parents[2],
        )
    settings = load(environ=chosen)
    server = Server(
        process=process,
        address=address,
        directory=directory,
        channel=grpc.insecure_channel(address),
        pool_size=settings.pool_size,
        pool_least=settings.pool_least,
    )
    try:
        _wait(server)
    except BaseException:  # also an interrupt: the server is a process of its own and would live on
        server.kill()
        raise
    return server


def _inherited() -> dict[str, str]:
    return {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}


def _wait(server: Server) -> None:
    deadline = time.monotonic() + START_SECONDS
    pause = threading.Event()
    while not server.healthy():
        if (status := server.process.poll()) is not None:
            raise NotServing(f"the server ended with status {status}: {server.log.strip()}")
        if time.monotonic() >= deadline:
            raise NotServing(f"the server did not come up within {START_SECONDS:g} s: {server.log.strip()}")
        pause.wait(POLL_SECONDS)
