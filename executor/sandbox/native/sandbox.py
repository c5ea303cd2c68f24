"""One native sandbox, seen from the server: hands its command over, reads its output, and sees to it that it ends.

That the tree is dead is proved by the pidfd of its init: the kernel reports the end of a pid namespace's PID 1 only
after every other process in it is gone. All that can be done before the call is known is done while the sandbox is
made.
"""

import _socket
import asyncio
import contextlib
import errno
import os
import stat
import time
from collections.abc import Awaitable, Callable, Sequence

from executor.model.errors import ErrorCode, ErrorDetail, InvocationError
from executor.model.limits import Limits
from executor.model.outcome import Isolation
from executor.model.run import Collection, End, Process, RunReport, Stop, StreamName, Usage
from executor.sandbox.bounded import OutputMeter
from executor.sandbox.collect import collect_files
from executor.sandbox.contract import OnOutput
from executor.sandbox.native import killing, wire
from executor.sandbox.native.cgroups import Counters
from executor.sandbox.native.init import PLACES
from executor.sandbox.native.plan import Rlimits, plain
from executor.sandbox.native.streams import Feeder, Reader

CPU_PERIOD_SECONDS = 0.01
"""Longest time that a tree can use its processor limit up without being seen."""
INLINE_BYTES = 65_536
"""An order up to here travels in the packet itself; a larger one in a file in memory."""
LEAST_ID = 65_536
"""No sandbox of a server that is root has a host id below."""
_ENDS = frozenset({"exited", "signaled", "not_started", "staging", "fault"})


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
        self._loop = asyncio.get_running_loop()
        self._limits = Limits()
        self._rlimits: Rlimits | None = None
        self._setup_ms = 0.0
        self._control = _socket.socket(fileno=control)
        self._control.setblocking(False)  # noqa: FBT003
        self._pidfd = pidfd
        self._counters = counters
        self._release = release
        self._streams: tuple[int, ...] = ()
        self._places: tuple[int, ...] = ()
        self._used = False
        self._closed = False
        self._said: tuple[str, str] | None = None
        """The last word of its init, and what came after it."""
        self._stop: Stop | None = None
        self._parked: asyncio.Future[None] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        """Done when there is nothing more to wait for: the program ended, or is to be ended."""
        self._dead: asyncio.Future[None] = self._loop.create_future()
        """Done when the kernel says that the tree is gone."""
        self._memory_event = counters.oom_events()
        self._loop.add_reader(control, self._hear)
        self._loop.add_reader(pidfd, self._die)
        if self._memory_event >= 0:
            self._loop.add_reader(self._memory_event, self._run_short)

    # --- what the kernel and its init tell --------------------------------------------------------------------------

    def _hear(self) -> None:
        try:
            data, fds = wire.receive(self._control, 6)
        except BlockingIOError:
            return
        except OSError:  # it is dead
            self._loop.remove_reader(self._control.fileno())
            data, fds = b"", ()
        word, _, rest = data.decode(errors="surrogateescape").partition(" ")
        if word == "parked" and not self._parked.done() and _are_its_own(fds):
            self._streams, self._places = fds[:3], fds[3:]
            self._counters.begin()
            self._parked.set_result(None)
            return
        for fd in fds:
            os.close(fd)
        if word in _ENDS:
            self._said = word, rest
        if not self._parked.done():
            told = rest if word == "fault" else "could not be made: its init died; are its limits very low?"
            self._parked.set_exception(_fault(f"The sandbox {told}"))
            self._parked.exception()  # asked for here, so that one nobody awaits is no warning
        self._end(None)

    def _die(self) -> None:
        self._loop.remove_reader(self._pidfd)
        if not self._dead.done():
            self._dead.set_result(None)
        self._hear_the_rest()
        self._end(None)

    def _hear_the_rest(self) -> None:
        """What its init said before it died, where that is heard later than its death."""
        if self._said is None and not self._closed:
            self._hear()

    def _run_short(self) -> None:
        """On v1, where the kernel kills one process and leaves the rest; on v2 it kills the tree by itself."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._memory_event)
        if self._counters.oom_kills():
            self._end(Stop.MEMORY)

    def _check_cpu(self) -> None:
        """Where this host does not count, the rlimit of each process and the wall limit are what holds."""
        left = self._limits.cpu_seconds - (self._counters.cpu_seconds() or 0.0)
        if left <= 0:
            self._end(Stop.CPU)
        elif not self._ended.done():
            self._cpu_timer = self._loop.call_later(self._cpu_period(left), self._check_cpu)

    def _cpu_period(self, left: float) -> float:
        """Until so much can have been used."""
        return max(left / max(self._limits.cpu_cores, 1.0), CPU_PERIOD_SECONDS)

    def _end(self, stop: Stop | None) -> None:
        """The first cause counts."""
        if self._used and not self._ended.done():
            self._stop = stop
            self._ended.set_result(None)

    # --- its one call -----------------------------------------------------------------------------------------------

    async def parked(self) -> None:
        """Returns when it waits for its command. Raises InvocationError(SANDBOX_UNAVAILABLE) with the failed step."""
        await asyncio.shield(self._parked)

    @property
    def alive(self) -> bool:
        return not self._closed and not self._dead.done()

    def adopt(self, limits: Limits, rlimits: Rlimits | None, isolation: Isolation, setup_ms: float) -> None:
        """From here on it belongs to one call, which waited `setup_ms` for it. `rlimits` may lower those it has."""
        self._limits, self._rlimits, self.isolation, self._setup_ms = limits, rlimits, isolation, setup_ms

    async def run(self, process: Process, on_output: OnOutput) -> RunReport:
        self._refuse_closed()
        if self._used:
            raise RuntimeError("a sandbox runs one command, once")
        self._used = True
        meter = OutputMeter(self._limits.output_bytes, process.on_output_excess)
        stdin, stdout, stderr = self._streams
        self._streams = (stdout, stderr)
        began = time.monotonic()
        feeder = Feeder(stdin, process.stdin)
        readers: list[Reader] = []
        timers: list[asyncio.TimerHandle] = []
        try:
            self._hand_over(process)
            overflow = lambda: self._end(Stop.OUTPUT)  # noqa: E731
            readers.append(Reader(stdout, StreamName.STDOUT, meter, on_output, overflow))
            readers.append(Reader(stderr, StreamName.STDERR, meter, on_output, overflow))
            timers.append(self._loop.call_later(process.wall_seconds, self._end, Stop.WALL))
            self._cpu_timer = self._loop.call_later(self._cpu_period(self._limits.cpu_seconds), self._check_cpu)
            await self._ended
        finally:
            wall_ms = (time.monotonic() - began) * 1000
            for timer in (*timers, self._cpu_timer):
                if timer:
                    timer.cancel()
            await asyncio.shield(self._kill())
            feeder.close()
            for reader in readers:
                reader.drain()
        return self._report(meter, Usage(setup_ms=self._setup_ms, wall_ms=wall_ms, teardown_ms=_since(began) - wall_ms))

    _cpu_timer: asyncio.TimerHandle | None = None

    def _hand_over(self, process: Process) -> None:
        header = wire.packed(
            {
                **wire.A_RECORD,
                "argv": process.argv,
                "environment": dict(process.environment),
                "rlimits": plain(self._rlimits) if self._rlimits else None,
                "files": tuple((f.path, len(f.content), f.executable) for f in process.files),
            }
        )
        order = b"".join((len(header).to_bytes(8, "big"), header, *(f.content for f in process.files)))
        try:
            if len(order) <= INLINE_BYTES:
                wire.send(self._control, order)
            else:
                self._hand_over_large(order)
        except OSError as error:
            raise _fault(f"The command could not be handed to the sandbox: {error.strerror}.") from error

    def _hand_over_large(self, order: bytes) -> None:
        file = os.memfd_create("order", os.MFD_CLOEXEC)
        try:
            view = memoryview(order)
            while view:
                view = view[os.write(file, view) :]
            wire.send(self._control, b"order", (file,))
        finally:
            os.close(file)

    async def _kill(self) -> None:
        await killing.kill(
            self._pidfd, self._dead, self._counters, at_once=self._stop is not None or self._said is None
        )

    def _report(self, meter: OutputMeter, usage: Usage) -> RunReport:
        stop, said = self._stop, self._said
        oom_kills = self._counters.oom_kills()
        if oom_kills and stop is None:
            stop = Stop.MEMORY  # the tree counts as a whole, whoever of it the kernel took
        if said and said[0] == "staging":
            raise _staging(said[1])
        if stop is None and (said is None or said[0] == "fault"):
            reason = said[1] if said else "no reason given"
            raise _fault(f"The sandbox's init died without a report ({reason}).")
        end, exit_code, number, detail, wall_ns = _how(stop, said)
        cpu = self._counters.cpu_seconds()
        return RunReport(
            end=end,
            exit_code=exit_code,
            signal=number,
            stop=stop,
            detail=detail,
            usage=Usage(
                setup_ms=usage.setup_ms,
                wall_ms=wall_ns / 1e6 if wall_ns else usage.wall_ms,
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
        """The tree is dead when this returns; what else is left of it is cleared away after the answer."""
        if self._closed:
            return
        self._closed = True
        await asyncio.shield(self._let_go())

    async def _let_go(self) -> None:
        await self._kill()
        await self._release(self)

    def forget(self) -> None:
        """Close what the server holds of it. Called once, when it is dead."""
        for fd in (self._control.fileno(), self._pidfd, self._memory_event):
            if fd >= 0:
                self._loop.remove_reader(fd)
        self._control.close()
        self._counters.close()
        for fd in (self._pidfd, self._memory_event, *self._streams, *self._places):
            if fd >= 0:
                os.close(fd)


def _are_its_own(fds: tuple[int, ...]) -> bool:
    """Three pipes, and three directories of a sandbox's user: this server reads below them with its own rights, and a
    template, which is a program of its image, could give it others.
    """
    found = [os.fstat(fd) for fd in fds]
    pipes, places = found[:3], found[3:]
    return (
        len(pipes) == 3  # noqa: PLR2004 - stdin, stdout, stderr
        and len(places) == len(PLACES)
        and all(stat.S_ISFIFO(one.st_mode) for one in pipes)
        and all(stat.S_ISDIR(one.st_mode) for one in places)
        and (os.geteuid() != 0 or all(one.st_uid >= LEAST_ID for one in places))
    )


def _how(stop: Stop | None, said: tuple[str, str] | None) -> tuple[End, int | None, int | None, str, int]:
    """End, exit code, signal, detail, nanoseconds of the program."""
    if stop is not None or said is None:
        return End.KILLED, None, None, "", 0
    word, rest = said
    number, _, more = rest.partition(" ")
    if word == "exited":
        return End.EXITED, int(number), None, "", int(more)
    if word == "signaled":
        return End.SIGNALED, None, int(number), "", int(more)
    return (End.NOT_FOUND if int(number) == errno.ENOENT else End.NOT_EXECUTABLE), None, None, more, 0


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


def _staging(told: str) -> InvocationError:
    number, _, reason = told.partition(" ")
    return InvocationError(
        ErrorDetail(
            code=ErrorCode.PAYLOAD_TOO_LARGE
            if int(number) in (errno.ENOSPC, errno.EFBIG)
            else ErrorCode.SCHEMA_VIOLATION,
            message=f"The input files could not be written to /workspace: {reason}.",
            suggestion="Give fewer or smaller files, with paths that do not clash.",
        )
    )
