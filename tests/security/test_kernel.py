"""What of the kernel a sandboxed program can reach: the answer to each forbidden request is an errno, and nothing else
happens.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from executor.model.errors import ErrorCode
from executor.model.outcome import State
from tests.security.caller import Caller, assert_completed, program
from tests.security.serving import Server
from tests.security.syscall_table import DENIED, number, numbers

GOLDEN = Path(__file__).parent / "golden_posture.json"
NAMESPACES = {
    "mnt": 0x00020000,
    "cgroup": 0x02000000,
    "uts": 0x04000000,
    "ipc": 0x08000000,
    "user": 0x10000000,
    "pid": 0x20000000,
    "net": 0x40000000,
    "time": 0x00000080,
}

WITH_BAD_POINTERS = """
import hostile

argument_lists = ([hostile.BAD_POINTER] * 6, [0] * 6, [-1] * 6, [1, hostile.BAD_POINTER, 1, hostile.BAD_POINTER, 1, 1])
hostile.show({
    name: sorted({hostile.syscall(number, *arguments) for arguments in argument_lists})
    for name, number in hostile.given().items()
})
"""
X32 = """
import hostile

print(hostile.syscall(0x40000000 | hostile.given()), flush=True)
"""
SOCKETS = """
import hostile, socket

def made(family, kind, protocol):
    return hostile.tried(lambda: socket.socket(family, kind, protocol).close())

answers = {}
for family in [number for number in range(64) if number not in (1, 2, 10, 16)]:
    for kind in (1, 2, 3, 5):
        answers[f"family {family} kind {kind}"] = made(family, kind, 0)
for family in (2, 10):
    for kind in (3, 4, 5, 6, 10):
        for flags in (0, socket.SOCK_CLOEXEC, socket.SOCK_NONBLOCK | 0x100000000):
            answers[f"family {family} kind {kind} flags {flags}"] = made(family, kind | flags & 0xffffffff, 0)
    for protocol in (33, 115, 132, 136, 255, 262):
        answers[f"family {family} protocol {protocol}"] = made(family, 1, protocol)
for protocol in range(1, 32):
    for kind in (2, 3):
        answers[f"netlink {protocol} kind {kind}"] = made(16, kind, protocol)
for family, kind in ((38, 5), (40, 1), (33, 2), (15, 3), (17, 3)):  # ALG, VSOCK, RXRPC, KEY, PACKET
    answers[f"pair of {family}"] = hostile.tried(socket.socketpair, family, kind)
with socket.socket() as one:
    answers["TCP_ULP"] = hostile.tried(one.setsockopt, socket.IPPROTO_TCP, 31, b"espintcp")
with socket.socket(type=socket.SOCK_DGRAM) as one:
    answers["UDP_ENCAP"] = hostile.tried(one.setsockopt, socket.IPPROTO_UDP, 100, 2)
works = [made(1, 1, 0), made(2, 1, 0), made(10, 1, 6), made(2, 2, 17), made(16, 3, 0)]
hostile.show({"refused": answers, "works": works})
"""
KEYS = """
import hostile

def read(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError as error:
        return hostile.name(error.errno)

calls = hostile.given()
hostile.show({
    "files": {path: read(path) for path in ("/proc/keys", "/proc/key-users", "/proc/self/keys")},
    "search": [hostile.syscall(calls["keyctl"], 10, ring, b"user", b"executor-probe", 0) for ring in range(-8, 0)],
    "describe": [hostile.syscall(calls["keyctl"], 6, ring, 0, 0) for ring in range(-8, 0)],
    "join": hostile.syscall(calls["keyctl"], 1, 0),
    "request": hostile.syscall(calls["request_key"], b"user", b"executor-probe", 0, -3),
    "add": hostile.syscall(calls["add_key"], b"user", b"mine", b"x", 1, -3),
})
"""
IN_NEW_NAMESPACES = """
import hostile, os, signal

calls, flags = hostile.given()["calls"], hostile.given()["flags"]
own = os.getpid()

def cloned(flag):
    answer = hostile.syscall(calls["clone"], flag | signal.SIGCHLD, 0, 0, 0, 0)
    if os.getpid() != own or os.getppid() == own:
        os._exit(0)
    return answer

def entered(kind, flag):
    with open(f"/proc/self/ns/{kind}") as file:
        return [hostile.syscall(calls["setns"], file.fileno(), f) for f in (0, flag)]

answers = {}
for kind, flag in flags.items():
    answers[f"unshare {kind}"] = hostile.syscall(calls["unshare"], flag)
    answers[f"setns {kind}"] = sorted(set(entered(kind, flag)))
    if kind != "time":  # in the old clone these bits are the exit signal
        answers[f"clone {kind}"] = cloned(flag)
        answers[f"clone {kind} and thread"] = cloned(flag | 0x100)
answers["unshare all"] = hostile.syscall(calls["unshare"], sum(flags.values()))
answers["unshare none"] = hostile.syscall(calls["unshare"], 0)
hostile.show(answers)
"""
WRITES = """
import glob, hostile, os

def write(path):
    def act():
        fd = os.open(path, os.O_WRONLY)
        try:
            os.write(fd, b"1")
        finally:
            os.close(fd)
    return hostile.tried(act)

named = hostile.given()
found = []
for directory, _, files in os.walk("/proc"):
    if directory.startswith("/proc/self") or directory.startswith("/proc/thread-self"):
        continue
    found += [path for name in files if not os.path.islink(path := os.path.join(directory, name))]
opened = {}
for path in found:
    for flag in (os.O_WRONLY, os.O_RDWR | os.O_APPEND):
        try:
            os.close(os.open(path, flag | os.O_NONBLOCK))
        except OSError as error:
            opened.setdefault(hostile.name(error.errno), []).append(path)
        else:
            opened.setdefault("opened", []).append(path)
own = [f"/proc/self/{name}" for name in ("oom_score_adj", "uid_map", "setgroups", "coredump_filter", "mem", "comm",
       "attr/current", "timerslack_ns", "sched", "clear_refs", "autogroup", "loginuid")]
hostile.show({
    "named": {path: write(path) for path in named + own},
    "opened": opened.get("opened", []),
    "answers": sorted(opened),
    "count": len(found),
    "/sys": hostile.tried(os.listdir, "/sys"),
    "create": hostile.tried(os.mkdir, "/proc/mine"),
})
"""
MASKS = """
import hostile, os

def seen(path):
    try:
        if os.path.isdir(path):
            return "" if not os.listdir(path) else "entries"
        with open(path, "rb") as file:
            return "content" if file.read(64) else ""
    except OSError as error:
        return hostile.name(error.errno)

hostile.show({path: seen(path) for path in hostile.given()})
"""
CRASH = """
import sys

sys.dont_write_bytecode = True
import ctypes, hostile, os, resource

def raised(which):
    limit = resource.RLIM_INFINITY if which == "unlimited" else which
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (limit, limit))
    except (OSError, ValueError) as error:
        return "refused"
    return "done"

print([raised(limit) for limit in hostile.given()], resource.getrlimit(resource.RLIMIT_CORE), flush=True)
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # dumpable
with open("/proc/self/coredump_filter") as file:
    print(file.read().strip(), flush=True)
ctypes.string_at(0)
"""


async def test_every_forbidden_call_fails_before_its_arguments_are_looked_at(caller: Caller) -> None:
    """Probe 57: denied table."""
    asked = numbers(*DENIED)
    asked |= {f"number {young}": young for young in (600, 999, 123456, 2**30 - 1)}

    answers = await caller.probe(WITH_BAD_POINTERS, asked)

    assert len(answers) >= 60
    wrong = {name: seen for name, seen in answers.items() if not set(seen) <= {"EPERM", "ENOSYS"}}
    assert wrong == {}
    assert answers["clone3"] == answers["number 999"] == ["ENOSYS"]


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="only x86_64 has a second ABI behind the same instruction")
async def test_a_call_by_another_abi_ends_the_program(caller: Caller) -> None:
    """Probe 57: denied table."""
    outcome = await caller.python(X32, number("getpid"))

    assert outcome.stdout.text == ""
    assert outcome.error is not None
    assert outcome.error.code is ErrorCode.CRASHED
    assert "SIGSYS" in outcome.error.message


async def test_only_plain_sockets_can_be_made(caller: Caller) -> None:
    """Probe 59: sockets."""
    seen = await caller.probe(SOCKETS)

    wrong = {name: answer for name, answer in seen["refused"].items() if answer not in ("EAFNOSUPPORT", "EPERM")}
    assert wrong == {}
    assert len(seen["refused"]) > 200
    assert seen["works"] == ["done"] * 5


async def test_io_uring_is_refused_with_an_errno_and_python_works_on(caller: Caller) -> None:
    """Probe 60: io_uring_setup."""
    calls = numbers("io_uring_setup", "io_uring_enter", "io_uring_register")

    answers = await caller.probe(WITH_BAD_POINTERS, calls)

    assert answers == {name: ["EPERM"] for name in calls}
    assert_completed(await caller.python("import asyncio; print(asyncio.run(asyncio.sleep(0, 'works')))"))


async def test_node_works_without_io_uring(caller: Caller) -> None:
    """Probe 60: io_uring_setup."""
    offer = await caller.client.get_tool("node")
    if offer.unavailable and not os.environ.get("CI"):
        pytest.skip(f"this host has no node: {offer.unavailable}")
    code = 'require("node:fs").promises.readFile("main.cjs", "utf8").then((text) => console.log(text.length > 9));'

    outcome = await caller.call("node", {"code": code})

    assert_completed(outcome)
    assert outcome.stdout.text == "true\n"


async def test_no_key_ring_can_be_asked(caller: Caller) -> None:
    """Probe 61: keyctl/add_key/request_key."""
    calls = numbers("keyctl", "add_key", "request_key")

    answers = await caller.probe(WITH_BAD_POINTERS, calls)

    assert answers == {name: ["EPERM"] for name in ("keyctl", "add_key", "request_key")}


async def test_a_key_of_the_servers_rings_is_not_seen(caller: Caller, host_key: str) -> None:
    """Probe 62: inherited session keyring and /proc/keys."""
    seen = await caller.probe(KEYS, numbers("keyctl", "add_key", "request_key"))

    assert host_key not in json.dumps(seen)
    assert {path: text for path, text in seen["files"].items() if text not in ("", "ENOENT", "EPERM")} == {}
    assert set(seen["search"]) | set(seen["describe"]) == {"EPERM"}
    assert {seen["join"], seen["request"], seen["add"]} == {"EPERM"}


@pytest.fixture
def host_key() -> Iterator[str]:
    """A key in the user's and the session's ring of this process, which are the server's too."""
    libc = ctypes.CDLL(None, use_errno=True)
    word = b"executor-probe"
    rings = (-3, -4)
    serials = [libc.syscall(number("add_key"), b"user", word, word, len(word), ring) for ring in rings]
    if max(serials) > 0:
        assert word.decode() in Path("/proc/keys").read_text(), "the host itself does not show the key"
    yield word.decode()
    for serial, ring in zip(serials, rings, strict=True):
        if serial > 0:
            libc.syscall(number("keyctl"), 9, serial, ring)


async def test_no_namespace_can_be_made_or_entered(caller: Caller) -> None:
    """Probe 63: namespaces."""
    given = {"calls": numbers("unshare", "setns", "clone"), "flags": _present_namespaces()}

    answers = await caller.probe(IN_NEW_NAMESPACES, given)

    expected = {name: ["EPERM"] if name.startswith("setns") else "EPERM" for name in answers}
    assert answers == expected
    assert len(answers) >= 28


def _present_namespaces() -> dict[str, int]:
    """Kind -> flag, of those that this kernel has."""
    return {kind: flag for kind, flag in NAMESPACES.items() if Path("/proc/self/ns", kind).exists()}


async def test_nothing_of_proc_and_sys_can_be_written(caller: Caller) -> None:
    """Probe 65: /proc and /sys writes."""
    given = [
        "/proc/sysrq-trigger",
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/modprobe",
        "/proc/sys/kernel/hostname",
        "/proc/sys/vm/drop_caches",
        "/proc/sys/fs/binfmt_misc/register",
        "/proc/irq/0/smp_affinity",
        "/proc/bus/pci/00/00.0",
        "/proc/fs/nfsd/versions",
        "/proc/1/oom_score_adj",
        "/proc/timer_list",
        "/proc/kmsg",
        "/sys/kernel/uevent_helper",
        "/sys/power/state",
        "/sys/fs/cgroup/cgroup.procs",
        "/sys/fs/cgroup/memory/release_agent",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/pids/pids.max",
        "/sys/fs/cgroup/release_agent",
    ]

    seen = await caller.probe(WRITES, given)

    refused = ("ENOENT", "EROFS", "EACCES")  # what masks a file belongs to the host's root, so that is said first
    assert {path: answer for path, answer in seen["named"].items() if answer not in refused} == {}
    assert seen["opened"] == []
    assert seen["count"] > 100
    assert seen["/sys"] == "ENOENT"
    assert seen["create"] != "done"


async def test_what_tells_about_the_host_is_absent_or_empty(caller: Caller) -> None:
    """Probe 67: masks."""
    proc = "kcore kallsyms keys key-users timer_list kmsg sched_debug latency_stats slabinfo vmallocinfo config.gz"
    proc += " interrupts softirqs modules acpi asound bus driver fs irq scsi tty sysrq-trigger"
    given = [f"/proc/{name}" for name in proc.split()]
    given += ["/sys", "/sys/firmware", "/sys/kernel/security", "/dev/kmsg", "/dev/mem", "/dev/port", "/dev/fuse"]
    given += ["/var/log", "/run/systemd", "/boot", "/root", "/home"]

    seen = await caller.probe(MASKS, given)
    syslog = await caller.probe(WITH_BAD_POINTERS, numbers("syslog"))

    assert {path: answer for path, answer in seen.items() if answer not in ("", "ENOENT", "EPERM")} == {}
    assert syslog == {"syslog": ["EPERM"]}


async def test_the_posture_of_a_program_is_the_golden_one(caller: Caller, server: Server) -> None:
    """Probe 69: posture."""
    seen = await caller.probe(program("posture"))

    assert _compared(seen, server) == json.loads(GOLDEN.read_text())


def _compared(seen: dict[str, Any], server: Server) -> dict[str, Any]:
    """With each namespace told as new or as the server's."""
    host = {kind: Path(f"/proc/{server.pid}/ns/{kind}").readlink() for kind in seen["namespaces"]}
    told = {kind: "new" if inode != str(host[kind]) else "the server's" for kind, inode in seen["namespaces"].items()}
    return seen | {"namespaces": told}


@pytest.mark.parametrize("asked", [["unlimited"], [0, "unlimited"], [0], []], ids=str)
async def test_a_crash_leaves_no_core_file_and_starts_no_handler(
    caller: Caller, core_handler: Callable[[], str], asked: list[int | str]
) -> None:
    """Probe 70: core dump."""
    outcome = await caller.python(CRASH, asked, collect=["**"])

    assert outcome.state is State.FAILED
    assert outcome.error is not None
    assert outcome.error.code is ErrorCode.CRASHED
    assert signal.SIGSEGV.name in outcome.error.message
    assert {artifact.path for artifact in outcome.artifacts} <= {"hostile.py", "given.json"}
    assert core_handler() == "", "the host's core handler ran"


@pytest.fixture
def core_handler(tmp_path: Path) -> Iterator[Callable[[], str]]:
    """Tells whether the kernel started the host's core handler for a sandbox's program. Where this process may not set
    the handler, the host's own stays, and only the files are looked at.
    """
    pattern = Path("/proc/sys/kernel/core_pattern")
    mark, handler = tmp_path / "ran", tmp_path / "handler"
    handler.write_text(f'#!/bin/sh\n[ "$1" -ge 65536 ] && echo "uid $1 $2" >> {mark}\nexec cat > /dev/null\n')
    handler.chmod(0o755)

    def ran() -> str:
        return mark.read_text() if mark.exists() else ""

    with Path(tempfile.gettempdir(), f"core-pattern-{os.geteuid()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one setting for the whole machine, and perhaps two test runs
        before = pattern.read_text()
        with contextlib.suppress(OSError):
            pattern.write_text(f"|{handler} %u %e")
        try:
            yield ran
        finally:
            with contextlib.suppress(OSError):
                pattern.write_text(before)
