"""PID 1 of a sandbox, once it is walled in: waits for its one command, writes its files, starts it, reaps, reports.

It runs under the same filter and limits as the program, as the same user, but the program can neither see nor signal
it. When it has reported it ends, and the kernel kills all that is left in its pid namespace. Imported by the
launcher and by templates: builtin modules and ctypes only.
"""

import _signal  # type: ignore[import-not-found]  # `signal` loads `enum`
import errno
import os
import time

from executor.sandbox.native import rlimits, syscalls, wire

TYPE_CHECKING = False  # `typing` would cost each sandbox memory
if TYPE_CHECKING:
    import _socket
    from collections.abc import Callable
    from typing import NoReturn

MAPPED = b"mapped"
ATTACHED = b"attached"
FAULT = 71
"""Exit status of an init that could not do its work (EX_OSERR of sysexits.h)."""
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
BASE_ENVIRONMENT = {
    "HOME": "/workspace",
    "LANG": "C.UTF-8",
    "LOGNAME": "sandbox",
    "PATH": SEARCH_PATH,
    "TMPDIR": "/tmp",  # noqa: S108 - the sandbox's own
    "USER": "sandbox",
}
PLACES = ("/workspace", "/tmp", "/dev/shm")  # noqa: S108 - the sandbox's own
"""Where a program may write."""
_OF_LIBC = (32, 33)
"""Signals that libc uses between threads: `posix_spawn` starts a program that ignores them."""
_DEFAULT_SIGNALS = tuple(number for number in range(1, 65) if number not in {9, 19, *_OF_LIBC})
"""All but SIGKILL and SIGSTOP, which nobody can catch, and the two that libc keeps for itself."""
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PIECE_BYTES = 65536
_SAMPLE = wire.packed(
    {
        **wire.A_RECORD,
        "argv": ("/workspace/none", "one"),
        "environment": {"NAME": "value"},
        "rlimits": None,
        "files": (),
    }
)
_SAMPLE_HERITAGE = wire.packed((("python3", "main.py"), BASE_ENVIRONMENT, None))


def expect(control: "_socket.socket", word: bytes) -> None:
    """Raises OSError where the launcher is gone."""
    if wire.receive(control)[0] != word:
        raise OSError(errno.EPIPE, "the launcher went away")


def serve(
    control: "_socket.socket", environment: dict[str, str], *, prepare: "Callable[[], None] | None"
) -> "wire.Plain":
    """Park, then run the one command. Where `prepare` is given, a copy of this process is made at once, which
    prepares itself and is to become the program: there it returns (argv, environment). In PID 1 it never returns.
    """
    stdin, stdout, stderr = os.pipe(), os.pipe(), os.pipe()  # made here, so that the program may reopen its own
    streams = (stdin[0], stdout[1], stderr[1])
    heir = _Heir(streams, prepare) if prepare else None
    if heir and heir.pid == 0:
        for fd in (stdin[1], stdout[0], stderr[0], control.detach()):
            os.close(fd)
        return heir.wait()
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)  # which PID 1 does not hear: CPython's handler would end it
    places = tuple(os.open(path, _DIRECTORY) for path in PLACES)
    _rehearse(environment)
    ours = (stdin[1], stdout[0], stderr[0], *places)
    wire.say(control, "parked", fds=ours)
    for fd in ours:
        os.close(fd)
    try:
        data, fds = wire.receive(control, 1)
    except wire.Gone:
        os._exit(0)  # never needed
    if fds:
        data = wire.read_file(fds[0])
    size = int.from_bytes(data[:8], "big")
    command = wire.unpacked(data[8 : 8 + size])
    try:
        if command.rlimits:
            rlimits.apply(command.rlimits)
        _write_files(command.files, memoryview(data)[8 + size :])
    except OSError as error:
        wire.say(control, "staging", error.errno, f"{error.filename or ''}: {error.strerror}")
        os._exit(0)
    return _run(control, command, BASE_ENVIRONMENT | environment | command.environment, streams, heir)


def _rehearse(environment: dict[str, str]) -> None:
    """A fork has its memory in common with its parent until it writes to it, and each first write takes time: those
    of the way that every command goes are made here, while nobody waits.
    """
    command = wire.unpacked(_SAMPLE)
    _write_files(command.files, memoryview(b""))
    variables = BASE_ENVIRONMENT | environment | command.environment
    try:
        _start(command.argv, variables, (0, 1, 2))
    except OSError as missing:
        _ = f"{missing.errno} {time.monotonic_ns()}".encode()


def _write_files(files: "wire.Plain", content: memoryview) -> None:
    """Below /workspace, which nobody else can write to yet. The paths were checked where the call was admitted."""
    start = 0
    for path, size, executable in files:
        directory = os.path.dirname(path)  # noqa: PTH120 - no pathlib here
        if directory:
            os.makedirs(directory, exist_ok=True)  # noqa: PTH103
        mode = 0o755 if executable else 0o644
        fd = os.open(path, _NEW_FILE, mode)
        try:
            view = content[start : start + size]
            while view:
                view = view[os.write(fd, view) :]
        finally:
            os.close(fd)
        start += size


def _run(
    control: "_socket.socket",
    command: "wire.Plain",
    environment: dict[str, str],
    streams: tuple[int, int, int],
    heir: "_Heir | None",
) -> "NoReturn":
    started = time.monotonic_ns()
    try:
        main = heir.become(command, environment) if heir else _start(command.argv, environment, streams)
    except OSError as error:
        if heir:
            wire.say(control, "fault", "its interpreter died before it was needed")
        else:
            wire.say(control, "not_started", error.errno, error.strerror)
        os._exit(0)
    for fd in streams:
        os.close(fd)
    while True:
        child = os.waitid(os.P_ALL, 0, os.WEXITED)
        if child is not None and child.si_pid == main:
            how = "exited" if child.si_code == os.CLD_EXITED else "signaled"
            wire.say(control, how, child.si_status, time.monotonic_ns() - started)
            os._exit(0)


def _start(argv: tuple[str, ...], environment: dict[str, str], streams: tuple[int, int, int]) -> int:
    """Raises FileNotFoundError only where no file of that name exists; any other OSError where the kernel refused."""
    refused: OSError | None = None
    for path in _candidates(argv[0], environment.get("PATH", "")):
        if not os.path.lexists(path):
            continue  # to find that out by spawning costs a process each time
        try:
            return os.posix_spawn(
                path,
                argv,
                environment,
                file_actions=[(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(streams)],
                setsid=True,
                setsigmask=(),
                setsigdef=_DEFAULT_SIGNALS,
            )
        except OSError as error:
            refused = refused or _explained(path, error)
    raise refused or FileNotFoundError(errno.ENOENT, "no such command in this image", argv[0])


def _explained(path: str, error: OSError) -> OSError:
    if error.errno == errno.ENOENT:
        return OSError(errno.ENOEXEC, "the interpreter that it names does not exist", path)
    return error


def _candidates(name: str, search_path: str) -> list[str]:
    if "/" in name:
        return [name]
    return [f"{directory}/{name}" for directory in search_path.split(":") if directory]


class _Heir:
    """A copy of this process that waits, already inside, to become the program."""

    def __init__(self, streams: tuple[int, int, int], prepare: "Callable[[], None]") -> None:
        self._read, self._write = os.pipe()
        ready_read, ready_write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._write)
            os.close(ready_read)
            os.setsid()
            for number in _OF_LIBC:
                syscalls.ignore(number)
            for number, fd in enumerate(streams):
                os.dup2(fd, number)
                os.close(fd)
            prepare()
            self._adopt(_SAMPLE_HERITAGE)
            os.write(ready_write, b"r")
            os.close(ready_write)
        else:
            os.close(self._read)
            os.close(ready_write)
            if not os.read(ready_read, 1):  # what it costs until then is not its call's
                raise OSError(errno.ECHILD, "a copy of the template died")
            os.close(ready_read)

    def become(self, command: "wire.Plain", environment: dict[str, str]) -> int:
        """In PID 1. The pid of the program. Raises OSError where it was killed while it waited."""
        limits = {**vars(command.rlimits), **wire.A_RECORD} if command.rlimits else None
        order = wire.packed((command.argv, environment, limits))
        view = memoryview(order)
        while view:
            view = view[os.write(self._write, view) :]
        os.close(self._write)
        return self.pid

    def wait(self) -> "wire.Plain":
        """In the heir: (argv, environment). Ends with PID 1."""
        order = b""
        while piece := os.read(self._read, _PIECE_BYTES):
            order += piece
        os.close(self._read)
        if not order:
            os._exit(FAULT)
        return self._adopt(order)

    def _adopt(self, order: bytes) -> "wire.Plain":
        argv, environment, limits = wire.unpacked(order)
        if limits:
            rlimits.apply(limits)
        syscalls.prctl(syscalls.PR_SET_DUMPABLE, 1)  # as after an exec
        return argv, environment
