"""The programs of the fake's image: few, small, each the twin of one that exists on Linux or the one cause of one
kind of end. `main` finds and plays them; tests may add their own (see `FakeBackend`).
"""

import asyncio
import itertools
import os
import posixpath
import shlex
import signal
from collections.abc import Mapping

from executor.model.errors import ErrorCode, ErrorDetail, InvocationError
from executor.model.run import End, RunReport, Stop
from executor.sandbox.fake_machine import Call, Entry, Kind, Program, Refused, absolute

BIN = ("/bin", "/usr/bin")


def exited(code: int) -> RunReport:
    return RunReport(end=End.EXITED, exit_code=code)


def starter(programs: Mapping[str, Program]) -> Program:
    """The exec of a fake machine: `argv[0]` is a staged file, a path below /bin, or a name in `programs`."""

    async def start(call: Call) -> RunReport:
        name = call.argv[0] if call.argv else ""
        entry = call.machine.disk.entries.get(absolute(name)) if "/" in name else None
        if entry is not None:
            return await _script(call, entry)
        if "/" in name:
            name = posixpath.basename(name) if posixpath.dirname(name) in BIN else ""
        if (program := programs.get(name)) is None:
            return RunReport(end=End.NOT_FOUND, detail="No such file or directory")
        return await _guarded(program, call)

    return start


async def _guarded(program: Program, call: Call) -> RunReport:
    try:
        return await program(call)
    except Refused as reason:
        await call.err(os.fsencode(f"{call.argv[0]}: {reason}\n"))
        return exited(1)
    except (IndexError, ValueError):
        await call.err(os.fsencode(f"{call.argv[0]}: bad arguments: {shlex.join(call.argv[1:])}\n"))
        return exited(2)


async def _script(call: Call, entry: Entry) -> RunReport:
    """An executable file that begins with `#!`: one command a line, words as a shell would split them."""
    if not entry.executable:
        return RunReport(end=End.NOT_EXECUTABLE, detail="Permission denied")
    if not entry.content.startswith(b"#!"):
        return RunReport(end=End.NOT_EXECUTABLE, detail="Exec format error")
    lines = [shlex.split(line) for line in os.fsdecode(entry.content).splitlines()[1:]]
    return await _in_turn(call, [line for line in lines if line])


async def _in_turn(call: Call, commands: list[list[str]]) -> RunReport:
    """Each after the one before, until one does not exit with 0."""
    report = exited(0)
    for command in commands:
        report = await call.machine.call(Call(machine=call.machine, argv=tuple(command), stdin=call.stdin))
        if report.exit_code != 0:
            break
    return report


async def _steps(call: Call) -> RunReport:
    """`steps echo a ; warn b ; exit 3`, each `;` an argument of its own."""
    commands: list[list[str]] = [[]]
    for word in call.argv[1:]:
        commands.append([]) if word == ";" else commands[-1].append(word)
    return await _in_turn(call, commands)


async def _spawn(call: Call) -> RunReport:
    """Leave a process behind that nobody waits for."""
    call.machine.spawn(call.argv[1:])
    await asyncio.sleep(0)
    return exited(0)


async def _exit(call: Call) -> RunReport:
    return exited(int(call.argv[1]) % 256)


async def _true(_: Call) -> RunReport:
    return exited(0)


async def _false(_: Call) -> RunReport:
    return exited(1)


async def _echo(call: Call) -> RunReport:
    await call.out(_line(call))
    return exited(0)


async def _warn(call: Call) -> RunReport:
    """`echo` on stderr; without words, what stands on stdin."""
    await call.err(_line(call) if call.argv[1:] else call.stdin)
    return exited(0)


def _line(call: Call) -> bytes:
    return os.fsencode(" ".join(call.argv[1:])) + b"\n"


async def _cat(call: Call) -> RunReport:
    names = call.argv[1:]
    for content in [call.machine.disk.read(name) for name in names] if names else [call.stdin]:
        await call.out(content)
    return exited(0)


async def _count(call: Call) -> RunReport:
    """`o1`, `o2`, ... on stdout and `e1`, `e2`, ... on stderr, in turn."""
    for number in range(1, int(call.argv[1]) + 1):
        await call.out(b"o%d\n" % number)
        await call.err(b"e%d\n" % number)
    return exited(0)


async def _zeros(call: Call) -> RunReport:
    await call.out(bytes(int(call.argv[1])))
    return exited(0)


async def _yes(call: Call) -> RunReport:
    """Without end; with `--stderr` there."""
    write = call.err if "--stderr" in call.argv else call.out
    while True:
        await write(b"y\n" * 4096)


async def _sleep(call: Call) -> RunReport:
    await asyncio.sleep(float(call.argv[1]))
    return exited(0)


async def _kill(call: Call) -> RunReport:
    """`kill -SEGV` or `kill -11`: the process itself dies of that signal."""
    name = call.argv[1].removeprefix("-")
    if not name.isdigit() and f"SIG{name}" not in signal.Signals.__members__:
        raise ValueError(name)
    number = int(name) if name.isdigit() else signal.Signals[f"SIG{name}"].value
    return RunReport(end=End.SIGNALED, signal=number)


async def _write(call: Call) -> RunReport:
    """`write PATH TEXT`."""
    call.machine.disk.put(call.argv[1], Entry(content=os.fsencode(call.argv[2])))
    return exited(0)


async def _fill(call: Call) -> RunReport:
    """`fill PATH`: write until there is no space left."""
    limits = call.machine.limits
    content = bytes(min(limits.file_bytes, limits.workspace_bytes // 4 + 1))
    for number in itertools.count():
        call.machine.disk.put(f"{call.argv[1]}{number}", Entry(content=content))
    return exited(0)


async def _link(call: Call) -> RunReport:
    """`link TARGET PATH`: a symbolic link."""
    call.machine.disk.put(call.argv[2], Entry(kind=Kind.LINK, content=os.fsencode(call.argv[1])))
    return exited(0)


async def _fifo(call: Call) -> RunReport:
    call.machine.disk.put(call.argv[1], Entry(kind=Kind.FIFO))
    return exited(0)


async def _ls(call: Call) -> RunReport:
    for directory in call.argv[1:] or (".",):
        names = {path.split("/")[0] for path in call.machine.disk.below(directory)}
        await call.out(b"".join(os.fsencode(name) + b"\n" for name in sorted(names)))
    return exited(0)


async def _pwd(call: Call) -> RunReport:
    await call.out(os.fsencode(absolute(".")) + b"\n")
    return exited(0)


async def _env(call: Call) -> RunReport:
    """With `-0` each variable ends in NUL, as of coreutils."""
    end = "\0" if "-0" in call.argv else "\n"
    await call.out(os.fsencode("".join(f"{name}={value}{end}" for name, value in call.machine.environment.items())))
    return exited(0)


async def _spin(call: Call) -> RunReport:
    """Use processor time until the CPU limit."""
    await asyncio.sleep(call.machine.limits.cpu_seconds)
    call.machine.stop(Stop.CPU)
    await call.machine.killed()
    return exited(0)


async def _hog(call: Call) -> RunReport:
    """Use memory until the limit."""
    call.machine.stop(Stop.MEMORY, oom_kills=1)
    await call.machine.killed()
    return exited(0)


async def _forks(call: Call) -> RunReport:
    """Start processes until one is refused."""
    await call.err(b"forks: Resource temporarily unavailable\n")
    return RunReport(end=End.EXITED, exit_code=1, pids_refused=1)


async def _fault(_: Call) -> RunReport:
    """The sandbox breaks, not the program."""
    raise InvocationError(
        ErrorDetail(
            code=ErrorCode.SANDBOX_UNAVAILABLE,
            message="The fake sandbox broke down while its command ran.",
            suggestion="Call again; nothing is wrong with the tool or its arguments.",
        )
    )


PROGRAMS: Mapping[str, Program] = {
    "cat": _cat,
    "count": _count,
    "echo": _echo,
    "env": _env,
    "exit": _exit,
    "false": _false,
    "fault": _fault,
    "fifo": _fifo,
    "fill": _fill,
    "forks": _forks,
    "hog": _hog,
    "kill": _kill,
    "link": _link,
    "ls": _ls,
    "pwd": _pwd,
    "sleep": _sleep,
    "spawn": _spawn,
    "spin": _spin,
    "steps": _steps,
    "true": _true,
    "warn": _warn,
    "write": _write,
    "yes": _yes,
    "zeros": _zeros,
}
