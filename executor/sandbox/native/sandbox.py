"""One native sandbox, seen from the server: hands its command over, reads its output, and sees to it that it ends.

That the tree is dead is proved by the pidfd of its init: the kernel reports the end of a pid namespace's PID 1 only
after every other process in it is gone.
"""

import asyncio
import errno
import json
import os
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from typing import Any

from executor.model.errors import ErrorCode, ErrorDetail, InvocationError
from executor.model.limits import Limits
from executor.model.outcome import Isolation
from executor.model.run import Collection, End, Process, RunReport, Stop, StreamName, Usage
from executor.sandbox.bounded import OutputMeter
from executor.sandbox.collect import collect_files
from executor.sandbox.contract import OnOutput
from executor.sandbox.native import killing, watch
from executor.sandbox.native.cgroups import Counters
from executor.sandbox.native.plan import Rlimits
from executor.sandbox.native.streams import Feeder, Reader

MESSAGE_BYTES = 4096
PLACES = ("/workspace", "/tmp", "/dev/shm")  # noqa: S108 - the sandbox's own


class NativeSandbox:
    isolation: Isolation

    def __init__(
        self,
        *,
        number: int,
        control: int,
        pidfd: int,
        counters: Counters,
        release: "Callable[[NativeSandbox], Awaitable[None]]",
    ) -> None:
        self.number = number
        self._limits = Limits()
        self._rlimits: Rlimits
        self._setup_ms = 0.0
        self._control = socket.socket(fileno=control)
        self._control.setblocking(False)  # noqa: FBT003
        self._pidfd = pidfd
        self._counters = counters
        self._release = release
        self._streams: list[int] = []
        self._places: list[int] = []
        self._used = False
        self._closed = False
        self._dead = watch.readable(pidfd)
        """Done when the kernel says that the tree is gone."""

    async def parked(self) -> None:
        """Returns when it waits for its command. Raises InvocationError(SANDBOX_UNAVAILABLE) with the failed step."""
        await watch.readable(self._control.fileno())
        try:
            data, fds, _, _ = socket.recv_fds(self._control, MESSAGE_BYTES, 6)
        except ConnectionResetError:  # it died before it had read what the launcher told it
            data, fds = b"", []
        for fd in fds:
            os.set_inheritable(fd, False)  # noqa: FBT003
        self._streams, self._places = fds[:3], fds[3:]
        message = json.loads(data) if data else {"fault": "could not be made: its init died; are its limits very low?"}
        if "fault" in message:
            raise _fault(f"The sandbox {message['fault']}")

    @property
    def alive(self) -> bool:
        return not self._closed and not self._dead.done()

    def adopt(self, limits: Limits, rlimits: Rlimits, isolation: Isolation, setup_ms: float) -> None:
        """From here on it belongs to one call, which waited `setup_ms` for it. `rlimits` may lower those it has."""
        self._limits, self._rlimits, self.isolation, self._setup_ms = limits, rlimits, isolation, setup_ms

    async def run(self, process: Process, on_output: OnOutput) -> RunReport:
        self._refuse_closed()
        if self._used:
            raise RuntimeError("a sandbox runs one command, once")
        self._used = True
        meter = OutputMeter(self._limits.output_bytes, process.on_output_excess)
        overflow = asyncio.Event()
        stdin, stdout, stderr = self._streams
        readers = [
            Reader(stdout, StreamName.STDOUT, meter, on_output, overflow),
            Reader(stderr, StreamName.STDERR, meter, on_output, overflow),
        ]
        began = time.monotonic()
        feeder = Feeder(stdin, process.stdin)
        self._streams = [stdout, stderr]
        try:
            self._hand_over(process)
            stop, said = await self._until_it_ends(process, overflow)
        finally:
            wall_ms = (time.monotonic() - began) * 1000
            await asyncio.shield(self._kill())
            feeder.close()
            for reader in readers:
                reader.drain()
        return self._report(
            stop, said, meter, Usage(setup_ms=self._setup_ms, wall_ms=wall_ms, teardown_ms=_since(began) - wall_ms)
        )

    def _hand_over(self, process: Process) -> None:
        header = json.dumps(
            {
                "argv": process.argv,
                "environment": dict(process.environment),
                "rlimits": asdict(self._rlimits),
                "files": [{"path": f.path, "size": len(f.content), "executable": f.executable} for f in process.files],
            }
        ).encode()
        order = os.memfd_create("order", os.MFD_CLOEXEC)
        try:
            with open(order, "wb", closefd=False) as file:
                file.write(len(header).to_bytes(8, "big") + header)
                file.writelines(staged.content for staged in process.files)
            socket.send_fds(self._control, [b"go"], [order])
        except OSError as error:
            raise _fault(f"The command could not be handed to the sandbox: {error.strerror}.") from error
        finally:
            os.close(order)

    async def _until_it_ends(self, process: Process, overflow: asyncio.Event) -> tuple[Stop | None, dict[str, Any]]:
        """Why we stop it, if we do; and what its init said."""
        said: dict[str, Any] = {}
        causes: dict[asyncio.Future[Any], Stop | None] = {
            asyncio.ensure_future(self._listen(said)): None,
            asyncio.ensure_future(overflow.wait()): Stop.OUTPUT,
            asyncio.ensure_future(asyncio.sleep(process.wall_seconds)): Stop.WALL,
            asyncio.ensure_future(watch.cpu_spent(self._counters, self._limits)): Stop.CPU,
            asyncio.ensure_future(watch.out_of_memory(self._counters)): Stop.MEMORY,
        }
        try:
            done, _ = await asyncio.wait(causes, return_when=asyncio.FIRST_COMPLETED)
            for future in done:
                future.result()
            return next((cause for future, cause in causes.items() if future in done), None), said
        finally:
            for future in causes:
                future.cancel()
            await asyncio.wait(causes)

    async def _listen(self, said: dict[str, Any]) -> None:
        """Until the init has reported the end, or is dead without a word."""
        while True:
            await watch.readable(self._control.fileno())
            try:
                data = self._control.recv(MESSAGE_BYTES)
            except OSError:
                data = b""
            if not data:
                return
            said.update(json.loads(data))
            if said.keys() & {"exited", "signaled", "not_started", "staging", "fault"}:
                return

    async def _kill(self) -> None:
        await killing.kill(self._pidfd, self._dead, self._counters)

    def _report(self, stop: Stop | None, said: dict[str, Any], meter: OutputMeter, usage: Usage) -> RunReport:
        oom_kills = self._counters.oom_kills()
        if oom_kills and stop is None:
            stop = Stop.MEMORY  # the tree counts as a whole, whoever of it the kernel took
        if "staging" in said:
            raise _staging(said)
        if stop is None and not said.keys() & {"exited", "signaled", "not_started"}:
            raise _fault(f"The sandbox's init died without a report ({said.get('fault', 'no reason given')}).")
        end, exit_code, number = _end(stop, said)
        cpu = self._counters.cpu_seconds()
        return RunReport(
            end=end,
            exit_code=exit_code,
            signal=number,
            stop=stop,
            detail=said.get("not_started", ""),
            usage=Usage(
                setup_ms=usage.setup_ms,
                wall_ms=said.get("wall_ns", usage.wall_ms * 1e6) / 1e6,
                teardown_ms=usage.teardown_ms,
                cpu_ms=None if cpu is None else cpu * 1000,
                peak_memory_bytes=self._counters.peak_memory_bytes(),
                peak_processes=self._counters.peak_processes(),
            ),
            oom_kills=oom_kills,
            pids_refused=self._counters.pids_refused(),
            disk_full=tuple(place for place, fd in zip(PLACES, self._places, strict=True) if _full(fd)),
            output_dropped=meter.dropped,
        )

    async def collect(self, globs: Sequence[str], exclude: Sequence[str]) -> Collection:
        self._refuse_closed()
        if not self._dead.done():
            raise RuntimeError("a sandbox is collected from after its run has ended")
        return await asyncio.to_thread(collect_files, self._places[0], globs, exclude, self._limits)

    def _refuse_closed(self) -> None:
        if self._closed:
            raise _fault("The sandbox was closed before its call was done with it.")

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await asyncio.shield(self._kill())
        self._control.close()
        for fd in (self._pidfd, *self._streams, *self._places):
            os.close(fd)
        await asyncio.shield(self._release(self))


def _end(stop: Stop | None, said: dict[str, Any]) -> tuple[End, int | None, int | None]:
    if stop is not None:
        return End.KILLED, None, None
    if "exited" in said:
        return End.EXITED, said["exited"], None
    if "signaled" in said:
        return End.SIGNALED, None, said["signaled"]
    return (End.NOT_FOUND if said["errno"] == errno.ENOENT else End.NOT_EXECUTABLE), None, None


def _full(place: int) -> bool:
    status = os.fstatvfs(place)
    return status.f_bavail == 0 or status.f_favail == 0


def _since(began: float) -> float:
    return (time.monotonic() - began) * 1000


def _fault(message: str) -> InvocationError:
    return InvocationError(
        ErrorDetail(
            code=ErrorCode.SANDBOX_UNAVAILABLE,
            message=message,
            suggestion="Tell the operator; `executor doctor` says what this host can do.",
        )
    )


def _staging(said: dict[str, Any]) -> InvocationError:
    return InvocationError(
        ErrorDetail(
            code=ErrorCode.PAYLOAD_TOO_LARGE
            if said["errno"] in (errno.ENOSPC, errno.EFBIG)
            else ErrorCode.SCHEMA_VIOLATION,
            message=f"The input files could not be written to /workspace: {said['staging']}.",
            suggestion="Give fewer or smaller files, with paths that do not clash.",
        )
    )
