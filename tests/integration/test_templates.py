"""Sandboxes that a template bears, on the real backend: they end, are walled in and know of each other as those do that
start their program themselves.
"""

import asyncio
import json
import os
import re
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_asyncio

from executor.model.errors import ErrorCode, InvocationError
from executor.model.invocation import InputFile
from executor.model.limits import MIB, Limits
from executor.model.outcome import Isolation
from executor.model.run import Process, RunReport, SandboxSpec, StreamName, Usage
from executor.sandbox.native.backend import NativeBackend, NativeSettings
from executor.sandbox.native.pool import Kind, PoolSettings
from executor.sandbox.native.sandbox import NativeSandbox
from executor.settings import default_images_dir
from tests.support.backends import start_or_skip
from tests.support.census import census, leaked, processes_with
from tests.support.hosts import need_every_limit

WAIT_SECONDS = 20
SPEC = SandboxSpec(image="host", limits=Limits())
PREPARED = {"plain": "on_demand", "on demand": "on_demand+template:python", "pooled": "pooled+template:python"}
FORKED = ("on demand", "pooled")

module_loop = pytest.mark.asyncio(loop_scope="module")


# --- how programs are run -------------------------------------------------------------------------------------------


@dataclass
class Ended:
    report: RunReport
    stdout: bytes
    stderr: bytes
    isolation: Isolation
    files: dict[str, bytes] = field(default_factory=dict)

    def says(self) -> Any:
        """What it printed as JSON, having come to a good end."""
        assert (self.report.exit_code, self.stderr) == (0, b""), self.stderr.decode()
        return json.loads(self.stdout)

    def facts(self) -> tuple[object, ...]:
        """All but what differs from run to run."""
        return replace(self.report, usage=Usage()), self.stdout, self.stderr, self.files


def program(source: str, *arguments: str, **more: Any) -> Process:
    files = (InputFile(path="main.py", content=source.encode()),)
    return Process(argv=("python3", "main.py", *arguments), **{"wall_seconds": WAIT_SECONDS, "files": files, **more})


async def finished(sandbox: NativeSandbox, process: Process, collect: tuple[str, ...] = ()) -> Ended:
    streams: dict[StreamName, bytearray] = {name: bytearray() for name in StreamName}
    try:
        report = await sandbox.run(process, lambda name, data: streams[name].extend(data))
        collection = await sandbox.collect(collect, ())
    finally:
        await sandbox.close()
    files = {file.path: file.content for file in collection.files}
    return Ended(report, bytes(streams[StreamName.STDOUT]), bytes(streams[StreamName.STDERR]), sandbox.isolation, files)


class Ways:
    """Each way in which a sandbox can be made, with nothing left of the last one when the next is asked for."""

    def __init__(self, on_demand: NativeBackend, pooled: NativeBackend) -> None:
        self._on_demand, self._pooled = on_demand, pooled

    async def open(self, way: str, process: Process, spec: SandboxSpec = SPEC) -> NativeSandbox:
        if way == "pooled":
            kind = Kind.of(spec, self._pooled._template(self._pooled._images[spec.image], process))
            self._pooled._pool.expect([kind])
            await until(lambda: self._pooled._pool._classes[kind].parked)
            return await self._pooled.open(spec, process)
        await self._on_demand._reaper.drained()
        return await self._on_demand.open(spec, None if way == "plain" else process)

    async def run(
        self, way: str, process: Process, spec: SandboxSpec = SPEC, *, collect: tuple[str, ...] = ()
    ) -> Ended:
        sandbox = await self.open(way, process, spec)
        ended = await finished(sandbox, process, collect)
        if spec.image == "host":
            assert ended.isolation.prepared == PREPARED[way]
        return ended


async def until(condition: Any) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.005)


def settings(state_dir: Path, pool: PoolSettings) -> NativeSettings:
    return NativeSettings(state_dir=state_dir, images_dir=default_images_dir(), pool=pool, launchers=1)


async def start(backend: NativeBackend) -> None:
    """Where it has started, its templates are ready."""
    await start_or_skip(backend)
    async with asyncio.timeout(WAIT_SECONDS):
        await backend.templates_are_told()
    assert set(backend.templates().values()) == {""}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ways(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Ways]:
    need_every_limit()
    on_demand = NativeBackend(settings(tmp_path_factory.mktemp("state"), PoolSettings(most=0)))
    pooled = NativeBackend(settings(tmp_path_factory.mktemp("state"), PoolSettings(least=1, most=6)))
    await start(on_demand)
    try:
        await start(pooled)
        try:
            yield Ways(on_demand, pooled)
        finally:
            await pooled.stop()
    finally:
        await on_demand.stop()


def need_image(name: str) -> None:
    if name != "host" and not (default_images_dir() / name / "image.json").exists() and not os.environ.get("CI"):
        pytest.skip(f"the image {name!r} is not built here: make images")


# --- the same end ---------------------------------------------------------------------------------------------------

PROGRAMS = {
    "output": program("import sys; print('out', sys.argv); print('err', file=sys.stderr)", "a", "b c"),
    "stdin": program("import sys; print(sys.stdin.read().upper())", stdin=b"words"),
    "an exit code": program("raise SystemExit(3)"),
    "an error": program("def f():\n    return 1 / 0\nf()"),
    "a signal": program("import os; os.kill(os.getpid(), 9)"),
    "an abort": program("import os; os.abort()"),
    "a variable": program("import os; print(os.environ['WORD'], sorted(os.environ))", environment={"WORD": "x"}),
    "a file": program("open('a.txt', 'w').write('made'); open('b.txt', 'w').write('left')"),
    "a child that stays": program(
        "import os, time\nif os.fork() == 0:\n    os.setsid(); time.sleep(100)\nprint('gone')"
    ),
    "too long": program("import time; print('begun', flush=True); time.sleep(100)", wall_seconds=1.0),
    "too much memory": program("x = bytearray(1 << 30); print(len(x))"),
    "too much output": program("while True: print('x' * 1000)"),
    "too much on the disk": program("open('big', 'wb').write(bytes(2 << 20))"),
}
NARROW = replace(SPEC, limits=Limits(memory_bytes=64 * MIB, output_bytes=64_000, workspace_bytes=MIB))


@pytest.mark.parametrize("way", FORKED)
@pytest.mark.parametrize("name", PROGRAMS)
@module_loop
async def test_a_program_ends_as_in_a_sandbox_that_starts_it(ways: Ways, name: str, way: str):
    plain = await ways.run("plain", PROGRAMS[name], NARROW, collect=("a.txt",))
    forked = await ways.run(way, PROGRAMS[name], NARROW, collect=("a.txt",))
    if name == "too much output":  # where it was killed is a matter of time
        plain.stdout, forked.stdout = (ended.stdout[:1000] for ended in (plain, forked))
        plain.report, forked.report = (replace(ended.report, output_dropped=0) for ended in (plain, forked))
    assert forked.facts() == plain.facts()


@pytest.mark.parametrize(
    "process",
    [
        Process(argv=("sh", "-c", "echo main.py"), wall_seconds=WAIT_SECONDS),
        Process(argv=("python3", "-c", "print('main.py')"), wall_seconds=WAIT_SECONDS),
        program("print('main.py')", environment={"PYTHONHASHSEED": "1"}),
    ],
    ids=["another program", "another option", "a variable that CPython reads at its start"],
)
@module_loop
async def test_what_a_template_cannot_serve_starts_plainly_and_tells_so(ways: Ways, process: Process):
    sandbox = await ways.open("on demand", process)
    ended = await finished(sandbox, process)
    assert (ended.stdout, ended.isolation.prepared) == (b"main.py\n", "on_demand")


# --- nothing in common with others ----------------------------------------------------------------------------------

RANDOM = """
import json, os, random, secrets, tempfile, uuid
found = {
    "random": random.random(), "a new generator": random.Random().random(), "secrets": secrets.token_hex(),
    "uuid1": str(uuid.uuid1()), "uuid4": str(uuid.uuid4()), "a name": next(tempfile._get_candidate_names()),
    "a file": tempfile.mktemp(), "urandom": os.urandom(8).hex(),
}
try:
    import numpy
except ImportError:
    pass
else:
    found |= {"numpy": numpy.random.rand(), "normal": numpy.random.normal()}
    found["a new one of numpy"] = numpy.random.default_rng().random()
print(json.dumps(found))
"""


@pytest.mark.parametrize("image", ["host", "data"])
@pytest.mark.parametrize("way", FORKED)
@module_loop
async def test_two_runs_have_nothing_random_in_common(ways: Ways, image: str, way: str):
    need_image(image)
    spec = replace(SPEC, image=image)
    ended = [await ways.run(way, program(RANDOM), spec) for _ in range(3)]
    assert all("template:" in one.isolation.prepared for one in ended)
    found = [one.says() for one in ended]
    assert ("numpy" in found[0]) == (image == "data")
    for name in found[0]:
        assert len({one[name] for one in found}) == len(found), name


MARK = """
import atexit, builtins, gc, json, os, signal, socket, sys, threading, types

mark = "left-by-an-earlier-call"
builtins.mark = sys.mark = json.mark = mark
sys.modules[mark] = types.ModuleType(mark)
sys.path.append(mark); sys.argv.append(mark); sys.meta_path.append(mark)
os.environ["MARK"] = mark; os.putenv("MARK", mark)
atexit.register(print, mark)
signal.signal(signal.SIGUSR1, lambda *_: None)
socket.setdefaulttimeout(7.0)
held = [mark * 1000]
for directory in ("/workspace", "/tmp", "/dev/shm"):
    with open(f"{directory}/{mark}", "w") as file:
        file.write(mark)
left = socket.socket(socket.AF_UNIX)
left.bind(chr(0) + mark)
left.listen()
if os.fork() == 0:
    os.setsid()
    threading.Event().wait()
os._exit(0)
"""
LOOK = """
import builtins, gc, json, os, signal, socket, sys, threading

mark = "-".join(("left", "by", "an", "earlier", "call"))
found = []
for module in (builtins, *sys.modules.values()):
    if mark in map(str, vars(module).values()) and module.__name__ != "__main__":
        found.append(module.__name__)
found += [name for name in (*sys.modules, *sys.path, *sys.argv, *map(str, sys.meta_path)) if mark in name]
found += [name for name, value in os.environ.items() if mark in value]
for directory in ("/workspace", "/tmp", "/dev/shm"):
    found += [name for name in os.listdir(directory) if name != "main.py"]
if signal.getsignal(signal.SIGUSR1) != signal.SIG_DFL:
    found.append("a handler")
if socket.getdefaulttimeout() is not None:
    found.append("a default")
found += [one for one in gc.get_objects() if isinstance(one, str) and mark * 2 in one]
found += [line for line in open("/proc/net/unix").read().splitlines()[1:]]
found += sorted(set(os.listdir("/proc/self/fd")) - {"0", "1", "2", "3"})
found += [pid for pid in os.listdir("/proc") if pid.isdigit() and pid != str(os.getpid())]
found += [line for line in open("/proc/sysvipc/shm").read().splitlines()[1:]]
socket.socket(socket.AF_UNIX).bind(chr(0) + mark)
print(json.dumps(found))
"""


@pytest.mark.parametrize("way", FORKED)
@module_loop
async def test_nothing_of_an_earlier_call_is_found(ways: Ways, way: str):
    for _ in range(3):
        marked = await ways.run(way, program(MARK))
        assert (marked.report.exit_code, marked.stderr) == (0, b"")
        assert (await ways.run(way, program(LOOK))).says() == []


NETWORK = """
import json, socket, struct
SO_NETNS_COOKIE = 71
(number,) = struct.unpack("Q", socket.socket().getsockopt(socket.SOL_SOCKET, SO_NETNS_COOKIE, 8))
found = {name: open(f"/proc/net/{name}").read() for name in ("dev", "unix", "snmp", "snmp6", "route", "if_inet6")}
print(json.dumps([number, found]))
"""
TALK = """
import json, socket
one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
one.bind(("127.0.0.1", 0))
one.sendto(b"x", one.getsockname())
one.recv(1)
print(json.dumps("talked"))
"""


@pytest.mark.parametrize("way", ["plain", "on demand"])
@module_loop
async def test_a_network_serves_again_and_shows_nothing_of_who_had_it(ways: Ways, way: str):
    first, new = (await ways.run(way, program(NETWORK))).says()
    numbers = {first}
    for _ in range(4):
        number, again = (await ways.run(way, program(NETWORK))).says()
        numbers.add(number)
        assert again == new
    assert len(numbers) < 5, "no network served twice"
    assert (await ways.run(way, program(TALK))).says() == "talked"
    for _ in range(5):
        _, after = (await ways.run(way, program(NETWORK))).says()
        assert after == new


# --- the same walls -------------------------------------------------------------------------------------------------

POSTURE = """
import ctypes, json, os, resource, signal, sys

libc = ctypes.CDLL(None, use_errno=True)
COUNTED = ("Vm", "Rss", "HugetlbPages", "voluntary_ctxt", "nonvoluntary_ctxt")

def read(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError as error:
        return os.strerror(error.errno)

def mounts():
    for line in read("/proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        root, target, options = before.split()[3:6]
        yield root, target, options, after

def own(path):
    status = os.stat(path)
    return status.st_uid, status.st_gid, oct(status.st_mode)

def asked(option):
    value = libc.prctl(option, 0, 0, 0, 0)
    return value if value >= 0 else os.strerror(ctypes.get_errno())

def told(option):
    value = ctypes.c_int()
    return value.value if libc.prctl(option, ctypes.byref(value), 0, 0, 0) == 0 else os.strerror(ctypes.get_errno())

after_name = read("/proc/self/stat").rpartition(")")[2].split()
print(json.dumps({
    "status": [line for line in read("/proc/self/status").splitlines() if not line.startswith(COUNTED)],
    "mounts": [*mounts()],
    "descriptors": {fd: os.readlink(f"/proc/self/fd/{fd}").partition(":")[0] + read(f"/proc/self/fdinfo/{fd}")[7:22]
                    for fd in ("0", "1", "2")},
    "more descriptors": sorted({*os.listdir("/proc/self/fd")} - {"0", "1", "2", "3"}),
    "limits": read("/proc/self/limits"),
    "cgroup": sorted({line.split(":", 1)[1] for line in read("/proc/self/cgroup").splitlines()}),
    "oom": read("/proc/self/oom_score_adj"),
    "clocks": read("/proc/self/timens_offsets"),
    "owner": {name: own(f"/proc/self/{name}") for name in ("status", "fd", "maps", "environ", "mem")},
    "ids": [" ".join(read(f"/proc/self/{name}").split()[::2]) for name in ("uid_map", "gid_map")],
    "setgroups": read("/proc/self/setgroups"),
    "environment": [*os.environ.items()],
    "environment at the start": read("/proc/self/environ"),
    "command line": read("/proc/self/cmdline"),
    "name": read("/proc/self/comm"),
    "own file": os.readlink("/proc/self/exe"),
    "processes": sorted(name for name in os.listdir("/proc") if name.isdigit()),
    "proc": sorted(name for name in os.listdir("/proc") if not name.isdigit()),
    "pids": [os.getpid(), os.getppid(), os.getpgrp(), os.getsid(0)],
    "terminal": after_name[4],
    "flags": after_name[6],
    "umask": os.umask(0o22),
    "scheduled": [os.sched_getscheduler(0), os.nice(0), sorted(os.sched_getaffinity(0))],
    "personality": read("/proc/self/personality"),
    "dumped": read("/proc/self/coredump_filter"),
    "slack": read("/proc/self/timerslack_ns"),
    "dumpable": asked(3), "keeps capabilities": asked(7), "filter": asked(21), "secure bits": asked(27),
    "no new privileges": asked(39), "huge pages": asked(42), "death": told(2), "reaper": told(37),
    "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
    "handlers": [str(signal.getsignal(number)) for number in signal.valid_signals()],
    "namespaces": {name: os.readlink(f"/proc/self/ns/{name}") for name in os.listdir("/proc/self/ns")},
    "host": os.uname().nodename,
    "devices": sorted((name, oct(os.lstat(f"/dev/{name}").st_mode)) for name in os.listdir("/dev")),
    "places": {place: [own(place), sorted(os.listdir(place))]
               for place in ("/", "/workspace", "/tmp", "/dev/shm", "/etc", "/run")},
    "threads": len(os.listdir("/proc/self/task")),
    "started as": [sys.argv, sys.orig_argv, sys.path, str(sys.flags), sys.executable],
    "resources": [resource.getrlimit(number) for number in range(16)],
}))
"""
NOT_THE_SAME = {
    "environment at the start": "the template's",
    "command line": "the template's, without arguments",
    "own file": "named as in the template's own mounts, where /usr may be a mount of its own",
    "flags": "that it did not execute anything since it was forked",
}
"""What a program can tell a fork by, beside its memory."""


@dataclass
class Seen:
    inside: dict[str, Any]
    outside: dict[str, Any]
    """Of its init, before the command; only root sees that."""


async def posture(ways: Ways, way: str) -> Seen:
    process = program(POSTURE, "argument", environment={"WORD": "x"})
    sandbox = await ways.open(way, process)
    outside = seen_from_outside(pid_of(sandbox._pidfd)) if os.geteuid() == 0 else {}
    return Seen((await finished(sandbox, process)).says(), outside)


def pid_of(pidfd: int) -> int:
    with Path(f"/proc/self/fdinfo/{pidfd}").open() as info:
        return next(int(line.split()[1]) for line in info if line.startswith("Pid:"))


def seen_from_outside(pid: int) -> dict[str, Any]:
    proc = Path(f"/proc/{pid}")
    wanted = ("Cap", "NoNewPrivs", "Seccomp", "Groups", "Umask", "Threads", "Shd", "SigBlk", "SigPnd")
    return {
        "status": [line for line in (proc / "status").read_text().splitlines() if line.startswith(wanted)],
        "limits": (proc / "limits").read_text(),
        "groups": re.sub(r"sandbox-\d+|executor-[^/]*", "", (proc / "cgroup").read_text()),
        "oom": (proc / "oom_score_adj").read_text(),
        "mounts": [line.split()[4:6] for line in (proc / "mountinfo").read_text().splitlines()],
    }


def namespaces(pid: int | str) -> dict[str, str]:
    return {path.name: str(path.readlink()) for path in Path(f"/proc/{pid}/ns").iterdir()}


def descriptors(pid: int) -> dict[int, str]:
    """Number -> kind, or path."""
    return {int(path.name): str(path.readlink()).partition(":")[0] for path in Path(f"/proc/{pid}/fd").iterdir()}


def status_of(pid: int) -> dict[str, str]:
    return dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())


def modulo_ids(text: Any) -> Any:
    """Host ids show in the options of mounts, and in where the device nodes come from."""
    return json.loads(re.sub(r"\b1[0-9]{6}\b", "ID", json.dumps(text)))


@pytest.mark.parametrize("way", FORKED)
@module_loop
async def test_a_sandbox_of_a_template_has_the_posture_of_a_plain_one(ways: Ways, way: str):
    plain, forked = await posture(ways, "plain"), await posture(ways, way)
    shared = {"namespaces"}
    differing = {
        name: (plain.inside[name], forked.inside[name])
        for name in plain.inside.keys() - shared
        if modulo_ids(plain.inside[name]) != modulo_ids(forked.inside[name])
    }
    assert {name: differing[name] for name in differing if name not in NOT_THE_SAME} == {}
    assert modulo_ids(forked.outside) == modulo_ids(plain.outside)
    assert set(forked.inside["namespaces"].values()).isdisjoint(namespaces("self").values())


@pytest.mark.root
@module_loop
async def test_a_sandbox_shares_no_namespace_with_its_template_or_another_sandbox(ways: Ways):
    process = program("pass")
    sandboxes = [await ways.open("on demand", process) for _ in range(2)]
    inits = [pid_of(sandbox._pidfd) for sandbox in sandboxes]
    template = psutil.Process(inits[0]).ppid()
    assert psutil.Process(template).name() == "executor-bears"
    seen = [namespaces(pid) for pid in (*inits, template, psutil.Process(template).ppid(), "self")]
    for name in seen[0].keys() - {"pid_for_children", "time", "time_for_children"}:
        own = [one[name] for one in seen]
        assert len({*own[:2], own[4]}) == 3, name
        assert own[2] not in own[:2], name
    for sandbox in sandboxes:
        await sandbox.close()


@pytest.mark.root
@module_loop
async def test_a_fork_that_waits_is_walled_in_and_holds_nothing_but_its_streams(ways: Ways):
    """PID 2 of a sandbox, which is to become the program."""
    sandbox = await ways.open("on demand", program("pass"))
    init = pid_of(sandbox._pidfd)
    (heir,) = psutil.Process(init).children()
    await until(lambda: len(descriptors(heir.pid)) == 4)  # and where it hears of its command
    status = status_of(heir.pid)
    assert {status[f"Cap{kind}"] for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {"0" * 16}
    assert (status["NoNewPrivs"], status["Seccomp"], status["NSpid"].split()[-1]) == ("1", "2", "2")
    assert namespaces(heir.pid) == namespaces(init)
    assert sorted(descriptors(heir.pid))[:3] == [0, 1, 2]
    assert {*descriptors(heir.pid).values()} == {"pipe"}
    kinds = [*descriptors(init).values()]
    assert set(kinds) <= {"pipe", "socket", "/dev/null", "/workspace", "/tmp", "/dev/shm"}
    assert kinds.count("socket") == 1
    await sandbox.close()


SIGNALS = """
import os, time
for number in range(1, 65):
    try:
        os.kill(1, number)
    except (OSError, ValueError):
        pass
time.sleep(0.2)
print("alive")
"""


@pytest.mark.parametrize(
    "way",
    [
        "plain",
        "on demand",
    ],
)
@module_loop
async def test_a_program_can_send_its_init_no_signal(ways: Ways, way: str):
    assert (await ways.run(way, program(SIGNALS))).stdout == b"alive\n"


# --- a template that ends -------------------------------------------------------------------------------------------


@pytest.fixture(params=[PoolSettings(most=0), PoolSettings(least=2, most=4)], ids=["on demand", "pooled"])
async def backend(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[NativeBackend]:
    need_every_limit()
    before = await asyncio.to_thread(census, str(tmp_path))
    backend = NativeBackend(replace(settings(tmp_path, request.param), images_dir=None))
    await start(backend)
    yield backend
    await backend.stop()
    assert await asyncio.to_thread(leaked, before, WAIT_SECONDS) == {}


def template_of(backend: NativeBackend) -> psutil.Process:
    (channel,) = backend._channels
    assert channel._process is not None
    (template,) = [one for one in psutil.Process(channel._process.pid).children() if one.name() == "executor-bears"]
    return template


async def test_calls_that_a_killed_template_bore_fail_as_the_executors_fault(backend: NativeBackend):
    process = program("import subprocess; subprocess.run(['sleep', '63.319'])")
    sandbox = await backend.open(SPEC, process)
    assert "template:python" in sandbox.isolation.prepared
    call = asyncio.create_task(finished(sandbox, process))
    await until(lambda: processes_with("63.319"))
    template_of(backend).send_signal(signal.SIGKILL)
    with pytest.raises(InvocationError) as failure:
        await asyncio.wait_for(call, WAIT_SECONDS)
    assert failure.value.detail.code is ErrorCode.SANDBOX_UNAVAILABLE
    assert "init died without a report" in failure.value.detail.message
    assert processes_with("63.319") == []


async def test_after_a_template_is_killed_calls_go_on_plainly(backend: NativeBackend):
    process = program("print('served')")
    first = await finished(await backend.open(SPEC, process), process)
    assert "template:python" in first.isolation.prepared
    template_of(backend).send_signal(signal.SIGKILL)
    await until(lambda: backend.templates() == {"host/python": "it ended"})
    for _ in range(4):
        ended = await finished(await backend.open(SPEC, process), process)
        assert ended.stdout == b"served\n"
        assert "template" not in ended.isolation.prepared


async def test_a_template_that_is_killed_in_the_middle_of_a_burst_fails_no_call_that_had_not_begun(
    backend: NativeBackend,
):
    process = program("print('served')")
    opened = [await backend.open(SPEC, process) for _ in range(3)]
    template = template_of(backend)
    async with asyncio.TaskGroup() as group:
        opening = [group.create_task(backend.open(SPEC, process)) for _ in range(8)]
        template.send_signal(signal.SIGKILL)
    for sandbox in opened:
        await sandbox.close()
    for sandbox in (task.result() for task in opening):
        if sandbox.alive:
            assert (await finished(sandbox, process)).stdout == b"served\n"
        else:
            await sandbox.close()
