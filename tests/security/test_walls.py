"""What a sandbox shares with nobody: inodes of what everybody has, and an init that the program cannot slow down."""

import fcntl
import os
import time

import pytest

from executor.model.errors import ErrorCode
from executor.model.outcome import State
from tests.security.caller import Caller, assert_completed, prepared
from tests.security.syscall_table import numbers
from tests.security.ways import Way

AS_ROOT = os.geteuid() == 0
EVERYBODY_HAS = [
    "/dev",
    "/proc",
    "/proc/keys",
    "/proc/kmsg",
    "/proc/fs",
    "/proc/bus",
    "/proc/self/ns/time",
    "/proc/self/ns/cgroup",
    "/etc",
    "/etc/passwd",
    "/usr/bin",
    "/tmp",
    "/dev/shm",
    *(["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"] if AS_ROOT else []),
]
"""An ordinary user cannot make device nodes, so its sandboxes share the host's."""
HOLD = """
import fcntl, hostile, os, time

held = []
for path in hostile.given():
    try:
        held.append(os.open(path, os.O_RDONLY))
        fcntl.flock(held[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        pass
    except BlockingIOError:  # one inode of ours under several names
        pass
print("held", len(held), flush=True)
time.sleep(2)
"""
TRY = """
import fcntl, hostile, os

refused = []
for path in hostile.given():
    try:
        file = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        continue
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        refused.append(path)
    os.close(file)
hostile.show(refused)
"""
ON_INIT = {
    "sched_setscheduler": "os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0))",
    "sched_setparam": "os.sched_setparam(1, os.sched_param(0))",
    "sched_setaffinity": "os.sched_setaffinity(1, {0})",
    "setpriority of the process": "os.setpriority(os.PRIO_PROCESS, 1, 19)",
    "setpriority of the user": "os.setpriority(os.PRIO_USER, 0, 19)",
    "prlimit": "resource.prlimit(1, resource.RLIMIT_CPU, (0, 0))",
    "prlimit to ask": "resource.prlimit(1, resource.RLIMIT_NOFILE)",
    "ioprio_set of the process": "call('ioprio_set', 1, 1, 0x6007)",
    "ioprio_set of the user": "call('ioprio_set', 3, 0, 0x6007)",
    "sched_setattr": "call('sched_setattr', 1, 0, 0)",
    "the number in 64 bits": "call('sched_setaffinity', (1 << 32) | 1, 0, 0)",
}
ATTEMPT = """
import ctypes, os, resource

libc = ctypes.CDLL(None, use_errno=True)
numbers = {{"ioprio_set": {ioprio_set}, "sched_setattr": {sched_setattr}, "sched_setaffinity": {sched_setaffinity}}}


def call(name, *arguments):
    if libc.syscall(numbers[name], *(ctypes.c_long(argument) for argument in arguments)) < 0:
        raise OSError(ctypes.get_errno(), name)


try:
    {attempt}
    print("done")
except OSError as error:
    print(__import__("errno").errorcode[error.errno])
"""
SPINNERS_BESIDE_AN_IDLE_INIT = """
import os

for nice in (lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0)), lambda: os.sched_setaffinity(1, {0})):
    try:
        nice()
    except OSError:
        pass
for _ in range(100):
    if os.fork() == 0:
        while True:
            pass
while True:
    pass
"""


async def test_sandboxes_are_prepared_as_this_way_has_them(caller: Caller, way: Way) -> None:
    """All other tests stand on it."""
    assert prepared(await caller.python("print(1)")) == way.prepared
    assert prepared(await caller.shell("true")) == way.prepared.partition("+")[0]


async def test_a_lock_on_what_everybody_has_is_seen_by_no_other_sandbox(caller: Caller) -> None:
    async with caller.running(HOLD, b"held", EVERYBODY_HAS) as holder:
        assert await caller.probe(TRY, EVERYBODY_HAS) == []
        assert not holder.done(), "nothing was locked meanwhile"


async def test_the_host_does_not_feel_a_lock_of_a_sandbox(caller: Caller) -> None:
    paths = ["/dev/null", "/dev/zero"] if AS_ROOT else ["/usr/bin/env"]
    async with caller.running(HOLD, b"held", paths) as holder:
        assert not holder.done(), "nothing is locked"
        for path in paths:
            fd = os.open(path, os.O_RDONLY)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            finally:
                os.close(fd)


@pytest.mark.parametrize("attempt", ON_INIT.values(), ids=ON_INIT)
async def test_the_init_is_out_of_the_programs_reach(caller: Caller, attempt: str) -> None:
    known = numbers("ioprio_set", "sched_setattr", "sched_setaffinity")
    outcome = await caller.python(ATTEMPT.format(attempt=attempt, **known))
    assert_completed(outcome)
    assert outcome.stdout.text == "EPERM\n"


async def test_a_program_may_still_order_its_own_processes(caller: Caller) -> None:
    code = (
        "import os; os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0)); nice = os.nice(5);"
        "os.sched_setaffinity(0, os.sched_getaffinity(0)); os.setpriority(os.PRIO_PROCESS, os.getpid(), nice + 2);"
        "print(os.getpriority(os.PRIO_PROCESS, 0) - nice)"
    )
    outcome = await caller.python(code)
    assert_completed(outcome)
    assert outcome.stdout.text == "2\n"


async def test_spinners_that_would_starve_the_init_end_at_the_limit(caller: Caller) -> None:
    began = time.monotonic()
    outcome = await caller.python(SPINNERS_BESIDE_AN_IDLE_INIT, limits={"wall_seconds": 1, "cpu_seconds": 20})
    assert outcome.state is State.FAILED
    assert outcome.error is not None
    assert outcome.error.code is ErrorCode.TIMEOUT
    assert outcome.usage.wall_ms + outcome.usage.teardown_ms < 1500 + 500
    assert time.monotonic() - began < 5
