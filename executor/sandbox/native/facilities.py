"""What this host can do for the native backend, found out by trying. Read by `executor doctor`; decides nothing.

Each trial happens in a child of its own that ends at once. The process that asks must have no threads yet.
"""

import asyncio
import contextlib
import os
import platform
import secrets
import signal
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from executor.model.errors import ExecutorError
from executor.model.limits import Limits
from executor.model.run import End, Process, SandboxSpec
from executor.sandbox.native import cgroups, identity, namespaces, seccomp, stage, syscalls
from executor.sandbox.native.backend import DEGRADABLE, NativeBackend, NativeSettings
from executor.sandbox.native.plan import Hierarchy

SAMPLES = 9
TEMPLATE_SECONDS = 20.0
_USERNS_REMEDY = (
    "allow user namespaces: sysctl user.max_user_namespaces=10000, and where they exist "
    "kernel.unprivileged_userns_clone=1 and kernel.apparmor_restrict_unprivileged_userns=0; in a container, run it "
    "with them allowed"
)
_NAMESPACES = {
    "mount": syscalls.CLONE_NEWNS,
    "pid": syscalls.CLONE_NEWPID,
    "network": syscalls.CLONE_NEWNET,
    "ipc": syscalls.CLONE_NEWIPC,
    "uts": syscalls.CLONE_NEWUTS,
    "cgroup": syscalls.CLONE_NEWCGROUP,
}
_ADVICE = (
    ("kernel/io_uring_disabled", {"2"}, "2"),
    ("kernel/kptr_restrict", {"1", "2"}, "2"),
    ("kernel/dmesg_restrict", {"1"}, "1"),
    ("kernel/perf_event_paranoid", {"3", "4"}, "3"),
    ("dev/tty/legacy_tiocsti", {"0"}, "0"),
    ("vm/unprivileged_userfaultfd", {"0"}, "0"),
)
"""Host settings that take a surface away from everybody: file of /proc/sys, good values, the one to set."""
_LANDLOCK_CREATE_RULESET = 444


@dataclass(frozen=True, slots=True, kw_only=True)
class Facility:
    name: str
    status: str
    """`ok`, `degraded`, `missing`, or `advice` for what would harden this host and is not needed."""
    detail: str
    remedy: str = ""
    required: bool = True
    """Whether the defaults cannot be enforced in full without it."""


async def survey(settings: NativeSettings) -> list[Facility]:
    """In the order in which a reader would mend them."""
    found = [_kernel(), _user_namespaces(), *(_namespace(name) for name in _NAMESPACES)]
    found += [
        _tried("overlay", "read-only overlay in a user namespace", _mount_overlay, "use a kernel of 5.11 or later"),
        _tried(
            "proc",
            "fresh /proc in a pid namespace",
            _mount_proc,
            "nothing may be mounted over parts of /proc, as container engines do",
        ),
        _seccomp(),
        _landlock(),
        *_cgroups(),
        _swap(),
        _identities(settings),
        *await _sandboxes(settings),
        *_host_advice(),
    ]
    return found


def _in_child(flags: int, work: Callable[[], None]) -> str:
    """Empty where `work` succeeded in a child with its own user namespace and `flags`; otherwise the reason."""
    reason_read, reason_write = os.pipe()
    ready_read, ready_write = os.pipe()
    try:
        pid, pidfd = syscalls.clone(syscalls.CLONE_NEWUSER | flags, signal.SIGCHLD)
    except OSError as error:
        for fd in (reason_read, reason_write, ready_read, ready_write):
            os.close(fd)
        return error.strerror or str(error)
    if pid == 0:
        try:
            os.read(ready_read, 1)
            identity.become(identity.INNER_ID, identity.INNER_ID)
            work()
        except OSError as error:
            os.write(reason_write, (error.strerror or str(error)).encode())
        finally:
            os._exit(0)
    try:
        os.close(reason_write)
        ids = (os.geteuid() or 65534, os.getegid() or 65534)
        identity.map_ids(pid, *(identity.one(identity.INNER_ID, outer) for outer in ids))
        os.write(ready_write, b"x")
        with open(reason_read, closefd=False) as reason:
            return reason.read()
    except OSError as error:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        return error.strerror or str(error)
    finally:
        os.waitpid(pid, 0)
        for fd in (reason_read, ready_read, ready_write, pidfd):
            os.close(fd)


def _nothing() -> None:
    """To be born is all that is asked."""


def _mount_overlay() -> None:
    stage.make_private()
    syscalls.mount("trial", "/tmp", "tmpfs", 0, "size=64k")  # noqa: S108 - in the child's own namespace
    for name in ("one", "two", "merged"):
        Path("/tmp", name).mkdir()  # noqa: S108
    data = "lowerdir=/tmp/one:/tmp/two"
    syscalls.mount("trial", "/tmp/merged", "overlay", syscalls.MS_RDONLY, data)  # noqa: S108


def _mount_proc() -> None:
    stage.make_private()
    syscalls.mount("proc", "/proc", "proc", syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC)


def _tried(name: str, what: str, work: Callable[[], None], remedy: str) -> Facility:
    reason = _in_child(namespaces.ALL & ~syscalls.CLONE_NEWUSER, work)
    if reason:
        return Facility(name=name, status="missing", detail=f"{what}: {reason}", remedy=remedy)
    return Facility(name=name, status="ok", detail=what)


def _kernel() -> Facility:
    release, machine = platform.release(), platform.machine()
    if machine not in ("x86_64", "aarch64"):
        return Facility(
            name="kernel", status="missing", detail=f"{release} on {machine}", remedy="use x86_64 or aarch64"
        )
    version = tuple(int(part) for part in release.split("-")[0].split(".")[:2] if part.isdigit())
    if version < (5, 12):
        return Facility(name="kernel", status="missing", detail=release, remedy="use Linux 5.12 or later")
    return Facility(name="kernel", status="ok", detail=f"Linux {release} on {machine}")


def _user_namespaces() -> Facility:
    if reason := _in_child(0, _nothing):
        return Facility(name="user namespace", status="missing", detail=reason, remedy=_USERNS_REMEDY)
    return Facility(name="user namespace", status="ok", detail="made one, with one unprivileged id")


def _namespace(name: str) -> Facility:
    if reason := _in_child(_NAMESPACES[name], _nothing):
        return Facility(name=f"{name} namespace", status="missing", detail=reason, remedy=_USERNS_REMEDY)
    return Facility(name=f"{name} namespace", status="ok", detail="made one")


def _seccomp() -> Facility:
    try:
        program = seccomp.compile_filter()
    except ExecutorError as error:
        return Facility(name="seccomp", status="missing", detail=str(error), remedy="install libseccomp 2.5 or later")

    def load() -> None:
        syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
        syscalls.load_seccomp(program)

    if reason := _in_child(0, load):
        return Facility(
            name="seccomp", status="missing", detail=reason, remedy="use a kernel with CONFIG_SECCOMP_FILTER"
        )
    return Facility(name="seccomp", status="ok", detail=f"loaded {len(program) // 8} instructions")


def _landlock() -> Facility:
    version = syscalls.call(_LANDLOCK_CREATE_RULESET, 0, 0, 1)
    if version < 1:
        return Facility(name="landlock", status="advice", detail="this kernel has none; it is not used", required=False)
    return Facility(
        name="landlock", status="ok", detail=f"version {version}; programs may use it, we do not", required=False
    )


def _located() -> tuple[tuple[Hierarchy, ...], dict[str, str]]:
    hierarchies, missing = cgroups.locate(f"{cgroups.PREFIX}{os.getpid()}-{secrets.token_hex(4)}")
    cgroups.remove_base(hierarchies)
    return hierarchies, missing


def missing_controllers() -> dict[str, str]:
    """The controllers that this process cannot use, each with the reason."""
    return _located()[1]


def _cgroups() -> list[Facility]:
    hierarchies, missing = _located()
    found = [
        Facility(name=f"cgroup {controller}", status="ok", detail=f"v{one.version}, below {Path(one.base).parent}")
        for one in hierarchies
        for controller in one.controllers
    ]
    return found + [
        Facility(
            name=f"cgroup {controller}",
            status="degraded",
            detail=f"{why}. Allowed by `--allow-degraded {controller}`: {DEGRADABLE[controller][0]}",
            remedy=DEGRADABLE[controller][1],
        )
        for controller, why in missing.items()
    ]


def _swap() -> Facility:
    swaps = Path("/proc/swaps").read_text().splitlines()[1:]
    if not swaps:
        return Facility(name="swap", status="ok", detail="off", required=False)
    return Facility(
        name="swap",
        status="ok",
        detail="on; forbidden to sandboxes where the memory controller counts it",
        required=False,
    )


def _identities(settings: NativeSettings) -> Facility:
    if os.geteuid() != 0:
        detail = f"one: every sandbox runs as host uid {os.geteuid()}, in a user namespace of its own"
        return Facility(name="host ids", status="ok", detail=detail, required=False)
    last = settings.first_id + settings.id_count - 1
    return Facility(name="host ids", status="ok", detail=f"{settings.first_id} to {last}, one for each running sandbox")


async def _sandboxes(settings: NativeSettings) -> list[Facility]:
    """The whole of it, as a call would have it."""
    backend = NativeBackend(replace(settings, allow_degraded=frozenset(DEGRADABLE)))
    times: list[float] = []
    try:
        await backend.start()
        try:
            for _ in range(SAMPLES):
                began = time.monotonic()
                sandbox = await backend.open(SandboxSpec(image="host", limits=Limits()))
                report = await sandbox.run(Process(argv=("true",), wall_seconds=5), lambda _name, _data: None)
                await sandbox.close()
                times.append((time.monotonic() - began) * 1000)
                if report.end is not End.EXITED:
                    return [Facility(name="one sandbox", status="missing", detail=f"`true` ended as {report.end}")]
            templates = await _templates(backend)
        finally:
            await backend.stop()
    except ExecutorError as error:
        return [Facility(name="one sandbox", status="missing", detail=str(error), remedy="see the rows above")]
    detail = f"`true` in a fresh one: {statistics.median(times):.1f} ms (median of {SAMPLES}, best {min(times):.1f} ms)"
    return [Facility(name="one sandbox", status="ok", detail=detail), *templates]


async def _templates(backend: NativeBackend) -> list[Facility]:
    """One that is not there costs time, and nothing else: its interpreter is started for each call."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(TEMPLATE_SECONDS):
            await backend.templates_are_told()
    found = []
    for name, reason in sorted(backend.templates().items()):
        status, detail = (
            ("advice", f"not there: {reason}") if reason else ("ok", "forked for each call of `python3 main.py`")
        )
        found.append(Facility(name=f"template {name}", status=status, detail=detail, required=False))
    return found


def _host_advice() -> list[Facility]:
    found = []
    for file, good, best in _ADVICE:
        path = Path("/proc/sys", file)
        if path.exists() and (value := path.read_text().strip()) not in good:
            name = file.replace("/", ".")
            found.append(
                Facility(
                    name=name,
                    status="advice",
                    detail=f"is {value}; sandboxes do not depend on it",
                    remedy=f"sysctl {name}={best}",
                    required=False,
                )
            )
    return found
