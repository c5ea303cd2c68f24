"""The server's end of the launcher: starts it, asks it, hears from it. On the event loop; the asking never blocks."""

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
from dataclasses import asdict
from typing import Any

from executor.model.errors import Unavailable
from executor.sandbox.native.launcher import MESSAGE_BYTES
from executor.sandbox.native.plan import LauncherPlan, SandboxPlan, encode

START_SECONDS = 15.0


class LauncherDied(Exception):
    """The launcher is gone, and with it every sandbox."""


class Channel:
    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._built: dict[int, asyncio.Future[tuple[int, int]]] = {}
        self._released: dict[int, asyncio.Future[None]] = {}
        self._ready: asyncio.Future[None] | None = None

    async def start(self, plan: LauncherPlan, filters: tuple[bytes, bytes]) -> None:
        """Raises Unavailable with the launcher's own words."""
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)  # noqa: FBT003
        self._process = _spawn(theirs)
        theirs.close()
        self._socket = ours
        self._ready = loop.create_future()
        loop.add_reader(ours, self._hear)
        files = [_memory_file("plan", content) for content in (encode(plan), *reversed(filters))]
        try:
            socket.send_fds(ours, [b"plan"], files)
        finally:
            for fd in files:
                os.close(fd)
        try:
            await asyncio.wait_for(self._ready, START_SECONDS)
        except (LauncherDied, TimeoutError) as error:
            await self.stop()
            raise Unavailable(f"the launcher of the native backend did not start: {error or 'no answer'}") from error

    async def build(self, plan: SandboxPlan) -> tuple[int, int]:
        """(control socket, pidfd) of a new sandbox. Raises LauncherDied, or OSError with the launcher's reason."""
        future = self._built[plan.sandbox_id] = asyncio.get_running_loop().create_future()
        self._send({"build": asdict(plan)})
        try:
            control, pidfd = await future
        except asyncio.CancelledError:
            _close_result(future)
            raise
        return control, pidfd

    async def release(self, sandbox_id: int) -> None:
        """Nothing of the sandbox is left when this returns."""
        if self._socket is None:
            return
        future = self._released[sandbox_id] = asyncio.get_running_loop().create_future()
        with contextlib.suppress(LauncherDied):  # then it took the sandbox along
            self._send({"release": sandbox_id})
            await future

    async def stop(self) -> None:
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._socket = None
        self._fail(LauncherDied("the launcher was stopped"))
        if self._process is not None:
            await asyncio.to_thread(self._process.wait)
            self._process = None

    @property
    def alive(self) -> bool:
        return self._socket is not None

    def _send(self, message: dict[str, Any]) -> None:
        if self._socket is None:
            raise LauncherDied("the launcher is gone")
        try:
            self._socket.send(json.dumps(message).encode())
        except OSError as error:
            raise LauncherDied(str(error)) from error

    def _hear(self) -> None:
        if self._socket is None:
            return
        try:
            data, fds, _, _ = socket.recv_fds(self._socket, MESSAGE_BYTES, 2)
        except BlockingIOError:
            return
        except OSError:
            data, fds = b"", []
        for fd in fds:
            os.set_inheritable(fd, False)  # noqa: FBT003
        if not data:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._socket = None
            self._fail(LauncherDied("the launcher went away"))
            return
        self._take(json.loads(data), fds)

    def _take(self, message: dict[str, Any], fds: list[int]) -> None:
        if "ready" in message and self._ready:
            self._ready.set_result(None)
        elif "fault" in message and self._ready:
            self._ready.set_exception(LauncherDied(message["fault"]))
        elif "built" in message:
            future = self._built.pop(message["built"], None)
            if future is None or future.done():
                for fd in fds:  # nobody waits any more
                    os.close(fd)
            else:
                future.set_result((fds[0], fds[1]))
        elif "failed" in message:
            future = self._built.pop(message["failed"], None)
            if future is not None and not future.done():
                future.set_exception(OSError(message["reason"]))
        elif "released" in message:
            waiting = self._released.pop(message["released"], None)
            if waiting is not None and not waiting.done():
                waiting.set_result(None)

    def _fail(self, error: LauncherDied) -> None:
        waiting: list[asyncio.Future[Any]] = [
            *self._built.values(),
            *self._released.values(),
            *([self._ready] if self._ready else []),
        ]
        self._built.clear()
        self._released.clear()
        for future in waiting:
            if not future.done():
                future.set_exception(error)
                future.exception()  # asked for here, so that one nobody awaits is no warning


def _close_result(future: "asyncio.Future[tuple[int, int]]") -> None:
    """Of one whose caller was cancelled between its end and hearing of it."""
    if future.done() and not future.cancelled() and future.exception() is None:
        for fd in future.result():
            os.close(fd)


def _spawn(theirs: socket.socket) -> "subprocess.Popen[bytes]":
    code = f"from executor.sandbox.native.launcher import main; main({theirs.fileno()})"
    return subprocess.Popen(
        [sys.executable, "-I", "-c", code],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=(theirs.fileno(),),
        start_new_session=True,
        env={"PATH": os.defpath},
        cwd="/",
    )


def _memory_file(name: str, content: bytes) -> int:
    fd = os.memfd_create(name, os.MFD_CLOEXEC)
    with open(fd, "wb", closefd=False) as file:
        file.write(content)
    return fd
