"""What the kernel says of this program: its threads' privileges, namespaces, ids, limits, mounts and surroundings."""

import ctypes
import os
import resource
import signal
import socket
import threading
from pathlib import Path

import hostile

PRIVILEGES = ("NoNewPrivs", "Seccomp", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "Uid", "Gid", "Groups")
NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts")
LIMITS = ("CORE", "FSIZE", "MSGQUEUE", "NICE", "NOFILE", "RTPRIO")
AT_MOST = {"MEMLOCK": 8 * 1024 * 1024, "SIGPENDING": 512}
"""Where the host's own limit may be lower."""
PLACES = ("/", "/dev", "/dev/shm", "/proc", "/tmp", "/usr", "/workspace")
OPTIONS = ("ro", "rw", "nosuid", "nodev", "noexec")
PR_GET_SECUREBITS = 27
PR_GET_KEEPCAPS = 7


def threads():
    """Every kind there is among the threads of this process and of a child."""
    end = threading.Event()
    other = threading.Thread(target=end.wait)
    other.start()
    child = os.fork()
    if child == 0:
        threading.Thread(target=signal.pause, daemon=True).start()
        signal.pause()
    tasks = [task for pid in (os.getpid(), child) for task in Path(f"/proc/{pid}/task").iterdir()]
    found = {privileges(task / "status") for task in tasks}
    end.set()
    other.join()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return [dict(one) for one in sorted(found)]


def privileges(status):
    pairs = (line.split(":", 1) for line in status.read_text().splitlines())
    return tuple((name, " ".join(value.split())) for name, value in pairs if name in PRIVILEGES)


def mounts():
    """Target -> type and options, of the places that each image has; of all others, what is not shut."""
    known, open_elsewhere = {}, []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        target, options = before.split()[4:6]
        chosen = [option for option in options.split(",") if option in OPTIONS]
        if target in PLACES:
            known[target] = [after.split()[0], *sorted(chosen)]
        elif not {"ro", "nosuid"} <= set(chosen):
            open_elsewhere.append(target)
    return {"known": dict(sorted(known.items())), "others not read-only and nosuid": open_elsewhere}


def limits(kind):
    return resource.getrlimit(getattr(resource, f"RLIMIT_{kind}"))


def terminal():
    try:
        os.close(os.open("/dev/tty", os.O_RDWR))
    except OSError as error:
        return hostile.name(error.errno)
    return "there"


libc = ctypes.CDLL(None)
hostile.show(
    {
        "threads": threads(),
        "namespaces": {kind: str(Path(f"/proc/self/ns/{kind}").readlink()) for kind in NAMESPACES},
        "securebits": libc.prctl(PR_GET_SECUREBITS, 0, 0, 0, 0),
        "keepcaps": libc.prctl(PR_GET_KEEPCAPS, 0, 0, 0, 0),
        "limits": {kind: limits(kind) for kind in LIMITS},
        "limited": {kind: max(limits(kind)) <= most for kind, most in AT_MOST.items()},
        "mounts": mounts(),
        "environment": {name: value for name, value in sorted(os.environ.items()) if name not in ("PATH", "LC_CTYPE")},
        "host name": socket.gethostname(),
        "directory": str(Path.cwd()),
        "cgroup": sorted({line.rsplit(":", 1)[1] for line in Path("/proc/self/cgroup").read_text().splitlines()}),
        "leads its session": os.getsid(0) == os.getpid(),
        "terminal": terminal(),
        "devices": sorted(path.name for path in Path("/dev").iterdir()),
    }
)
