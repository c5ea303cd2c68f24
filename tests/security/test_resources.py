"""What one run can use up: its own share, told by its name, and nothing of anybody else's."""

import asyncio
import ctypes
import json
import os
import time
from pathlib import Path

import pytest

from executor.model.errors import ErrorCode
from executor.model.limits import MIB
from executor.model.outcome import Outcome, State
from executor.sandbox.native import template
from tests.security import world
from tests.security.caller import Caller, program
from tests.security.serving import Server
from tests.security.syscall_table import numbers

MEMORY_BYTES = 128 * MIB
HOSTS_WATCHES = int(Path("/proc/sys/fs/inotify/max_user_watches").read_text())
HEAP = """
kept = [b"x" * (1 << 20) for _ in range(256)]
print("survived")
"""
HEAP_OF_A_CHILD = """
import os
child = os.fork()
if not child:
    kept = b"x" * (256 << 20)
    os._exit(0)
os.waitpid(child, 0)
"""
HEAP_OF_MANY = """
import os, time
for _ in range(32):
    if not os.fork():
        kept = b"x" * (8 << 20)
        time.sleep(60)
time.sleep(60)
"""
SHARED_PAGES = """
import mmap
shared = mmap.mmap(-1, 256 << 20)
for _ in range(256):
    shared.write(b"x" * (1 << 20))
print("survived")
"""
FILES_IN_MEMORY = """
import os
for _ in range(5):
    descriptor = os.memfd_create("hog")
    for _ in range(60):
        os.write(descriptor, b"x" * (1 << 20))
print("survived")
"""
FILES = """
for directory in ("/workspace", "/tmp", "/dev/shm"):
    with open(f"{directory}/hog", "wb") as file:
        for _ in range(60):
            file.write(b"x" * (1 << 20))
print("survived")
"""
FILL = """
import hostile, os, sys
place = os.open(f"{hostile.given()}/hog", os.O_WRONLY | os.O_CREAT)
try:
    while True:
        os.write(place, b"x" * 65536)
except OSError as error:
    hostile.show(hostile.name(error.errno))
    sys.exit(1)
"""
FILL_INODES = """
import hostile, os, sys
try:
    for number in range(100_000):
        os.mkdir(f"{hostile.given()}/{number}")
except OSError as error:
    hostile.show(hostile.name(error.errno))
    sys.exit(1)
"""
SPIN_IN_THREADS = """
import hashlib, threading

begin = threading.Event()

def spin():
    begin.wait()
    while True:
        hashlib.pbkdf2_hmac("sha256", b"password", b"salt", 20_000)  # without the interpreter's lock

for _ in range(64):
    threading.Thread(target=spin).start()
begin.set()
"""
SPIN_IN_PROCESSES = """
import os
begin, release = os.pipe()
for _ in range(100):
    if not os.fork():
        os.close(release)
        os.read(begin, 1)
        while True:
            pass
os.close(release)
while True:
    pass
"""
SPIN_DETACHED = """
import os, time
for _ in range(4):
    if not os.fork():
        os.setsid()
        if os.fork():
            os._exit(0)
        while True:
            pass
time.sleep(60)
"""
OPEN_UNTIL_REFUSED = """
import hostile, os, time
kept = []
try:
    while True:
        kept.append(os.open("/dev/null", os.O_RDONLY))
except OSError as error:
    print(hostile.name(error.errno), flush=True)
time.sleep(60)
"""
OPEN_IN_MANY_PROCESSES = """
import hostile, os, time
for _ in range(50):
    if not os.fork():
        try:
            kept = [os.pipe() for _ in range(2000)]
        except OSError:
            time.sleep(60)
time.sleep(1)
print("EMFILE", flush=True)
time.sleep(60)
"""
WATCH_EVERYTHING = """
import ctypes, hostile, os

libc = ctypes.CDLL(None, use_errno=True)
count = 0
while True:
    instance = libc.inotify_init1(0)
    for directory, _, names in os.walk("/usr"):
        for name in (".", *names):
            if libc.inotify_add_watch(instance, os.fsencode(os.path.join(directory, name)), 0xFFF) >= 0:
                count += 1
            elif ctypes.get_errno() in (12, 28):
                hostile.show([count, hostile.name(ctypes.get_errno())])
                raise SystemExit
"""


@pytest.mark.parametrize(
    "code",
    [HEAP, HEAP_OF_A_CHILD, HEAP_OF_MANY, SHARED_PAGES, FILES_IN_MEMORY, FILES],
    ids=["heap", "child", "many", "shared", "memfd", "tmpfs"],
)
async def test_twice_the_memory_ends_the_run_within_a_second(caller: Caller, code: str) -> None:
    """Probe 72: heap 2x limit."""
    began = time.monotonic()

    outcome = await caller.python(code, limits={"memory_bytes": MEMORY_BYTES})

    assert time.monotonic() - began <= 1.0
    assert_failed(outcome, ErrorCode.MEMORY_LIMIT)
    assert outcome.stdout.text == ""
    assert outcome.usage.peak_memory_bytes is not None
    assert outcome.usage.peak_memory_bytes <= MEMORY_BYTES


@pytest.mark.parametrize("place", ["/workspace", "/tmp", "/dev/shm"])
@pytest.mark.parametrize("code", [FILL, FILL_INODES], ids=["bytes", "inodes"])
async def test_a_full_disk_is_refused_and_reported(caller: Caller, code: str, place: str) -> None:
    """Probe 74: disk."""
    volume = 16 * MIB  # less than the largest file, which would be refused first

    outcome = await caller.python(code, place, limits={"workspace_bytes": volume, "tmp_bytes": volume})

    assert outcome.stdout.text == '"ENOSPC"\n', outcome.stderr.text
    assert_failed(outcome, ErrorCode.DISK_LIMIT)
    assert outcome.error is not None
    assert place in outcome.error.message
    assert outcome.exit_code == 1


async def test_a_file_beyond_the_largest_size_is_reported_as_disk(caller: Caller) -> None:
    """Probe 74: disk."""
    outcome = await caller.shell("head -c 2M /dev/zero > hog", limits={"file_bytes": MIB})

    assert outcome.exit_code != 0
    assert "File too large" in outcome.stderr.text or outcome.exit_code == 128 + 25


@pytest.mark.parametrize("cpu_cores", [0.5, 0.1])
async def test_sixty_four_spinning_threads_get_their_part_of_a_core(caller: Caller, cpu_cores: float) -> None:
    """Probe 76: CPU."""
    outcome = await caller.python(SPIN_IN_THREADS, limits={"cpu_cores": cpu_cores, "wall_seconds": 2.0})

    assert_failed(outcome, ErrorCode.TIMEOUT)
    usage = outcome.usage
    assert usage.cpu_ms is not None
    assert cpu_cores * usage.wall_ms / 2 <= usage.cpu_ms <= cpu_cores * usage.wall_ms + 100  # a period may be under way
    assert usage.peak_processes == 65


async def test_a_tree_that_used_its_quota_up_dies_at_once_all_the_same(caller: Caller) -> None:
    """Probe 76: CPU."""
    began = time.monotonic()

    outcome = await caller.python(SPIN_IN_PROCESSES, limits={"cpu_cores": 0.1, "wall_seconds": 2.0})

    assert time.monotonic() - began <= 2.5
    assert_failed(outcome, ErrorCode.TIMEOUT)


@pytest.mark.parametrize("code", ["while True: pass", SPIN_DETACHED], ids=["alone", "detached"])
async def test_the_processor_time_of_the_tree_is_a_limit(caller: Caller, code: str) -> None:
    """Probe 76: CPU."""
    outcome = await caller.python(code, limits={"cpu_seconds": 0.5, "wall_seconds": 20.0})

    assert_failed(outcome, ErrorCode.CPU_LIMIT)
    assert outcome.usage.cpu_ms is not None
    assert 500 <= outcome.usage.cpu_ms <= 1000
    assert outcome.usage.wall_ms <= 5000


async def test_sleep_past_the_wall_limit_is_a_time_out_without_processor_time(caller: Caller) -> None:
    """Probe 77: sleep past wall limit with no CPU."""
    began = time.monotonic()

    outcome = await caller.shell("exec sleep 600", limits={"wall_seconds": 0.5})

    assert time.monotonic() - began <= 1.0
    assert_failed(outcome, ErrorCode.TIMEOUT)
    assert outcome.usage.cpu_ms is not None
    assert outcome.usage.cpu_ms <= 100


@pytest.mark.parametrize("code", [OPEN_UNTIL_REFUSED, OPEN_IN_MANY_PROCESSES], ids=["one process", "many processes"])
async def test_descriptors_of_a_run_cost_the_server_none(caller: Caller, server: Server, code: str) -> None:
    """Probe 78: fds."""
    async with caller.running('import time; print("ready", flush=True); time.sleep(60)', b"ready"):
        usual = await asyncio.to_thread(world.calm, server, 1.0)

    async with caller.running(code, b"EMFILE"):
        now = await asyncio.to_thread(world.calm, server, 1.0)

    assert now.descriptors == usual.descriptors


async def test_kernel_objects_are_capped_for_each_run_and_not_for_all_together(caller: Caller) -> None:
    """Probe 80: kernel objects."""
    calls = numbers("timer_create", "inotify_init1", "mq_open", "shmget", "semget", "msgget", "io_setup")
    code = program("kernel_objects")
    exact = {
        "timer": [512, "EAGAIN"],
        "queue": [0, "EMFILE"],
        "asynchronous_io": [0, "ENOSYS"],
        "shared_memory": [4096, "ENOSPC"],
        "semaphores": [32_000, "ENOSPC"],
        "message_queue": [32_000, "ENOSPC"],
    }
    bounded = {
        "epoll_nest": (1, 15, "ELOOP"),
        "largest_pipe": (1, 64, "EPERM"),
        "inotify_instance": (1, 1000, "EMFILE"),
    }

    async with caller.running(code, b"}\n", [calls, True]) as first:
        beside = await caller.probe(code, [calls, False])
        ours = makes_inotify_instance()

    assert first.cancelled()
    assert {name: answer for name, answer in beside.items() if name in exact} == exact
    for name, (least, most, reason) in bounded.items():
        count, ended_by = beside[name]
        assert least <= count <= most, name
        assert ended_by == reason, name
    assert ours, "a sandbox uses up the inotify instances of the server's own user"


async def test_inotify_watches_are_paid_from_the_memory_of_the_run(caller: Caller) -> None:
    """Probe 80: kernel objects. Where siblings of a template have a bound in common, its share of that comes first."""
    outcome = await caller.python(WATCH_EVERYTHING, limits={"memory_bytes": 48 * MIB})

    if outcome.isolation is not None and "template" in outcome.isolation.prepared:
        count, ended_by = json.loads(outcome.stdout.text)  # a file of several names counts once for the kernel
        assert ended_by == "ENOSPC"
        assert 0 < count < 2 * HOSTS_WATCHES // template.SHARES
    else:
        assert_failed(outcome, ErrorCode.MEMORY_LIMIT)


def makes_inotify_instance() -> bool:
    """Whether this process, which has the user of the server, can make one."""
    instance = ctypes.CDLL(None).inotify_init1(0)
    if instance >= 0:
        os.close(instance)
    return bool(instance >= 0)


def assert_failed(outcome: Outcome, code: ErrorCode) -> None:
    assert outcome.state is State.FAILED, outcome.stderr.text
    assert outcome.error is not None
    assert outcome.error.code is code, outcome.error
