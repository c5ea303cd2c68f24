"""The process that makes sandboxes. Started before the server has any thread, single-threaded, standard library only.

It speaks with the server over one SOCK_SEQPACKET socket: a plan first, then requests to build and to
release. When that socket closes it kills every sandbox and ends. `inside` is the list of what happens between the
birth of a sandbox and the moment it waits for its one command.
"""

import contextlib
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass

from executor.sandbox.native import identity, init, mounts, namespaces, rlimits, syscalls
from executor.sandbox.native.cgroups import Cgroup, OpenHierarchy
from executor.sandbox.native.plan import (
    ImagePlan,
    LauncherPlan,
    SandboxPlan,
    launcher_plan_from,
    sandbox_plan_from,
)

MESSAGE_BYTES = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Birth:
    """What a new sandbox knows."""

    plan: SandboxPlan
    image: ImagePlan
    devices: str
    """Where its device nodes lie in the stage."""
    control: socket.socket
    filters: tuple[bytes, ...]
    """In the order of loading: the last one refuses to load any more."""


def inside(birth: Birth) -> None:
    """PID 1 of a new sandbox, in its new namespaces. The order is what makes it safe."""
    steps: tuple[tuple[str, Callable[[], None]], ...] = (
        ("wait for ids", lambda: init.expect(birth.control, init.MAPPED)),
        ("become the inner user", identity.become_inner_user),
        ("die with the launcher", namespaces.die_with_parent),
        ("mount the image", lambda: mounts.mount_root(birth.image)),
        ("mount the devices", lambda: mounts.mount_devices(birth.devices)),
        ("mount the private file systems", lambda: mounts.mount_private(birth.plan)),
        ("mount /proc", mounts.mount_proc),
        ("enter the root", mounts.enter_root),
        ("name the host", namespaces.name_host),
        ("bring the loopback up", namespaces.loopback_up),
        ("wait for the cgroup", lambda: init.expect(birth.control, init.ATTACHED)),
        ("hide the cgroup", namespaces.hide_cgroup),
        ("limit resources", lambda: rlimits.apply(birth.plan.rlimits)),
        ("forbid core files", rlimits.forbid_core_files),
        ("drop capabilities", identity.drop_capabilities),
        ("hide from the program", lambda: syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)),
        ("forbid new privileges", lambda: syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)),
        ("filter system calls", lambda: syscalls.load_filters(birth.filters)),
    )
    for name, step in steps:
        try:
            step()
        except OSError as error:
            init.report(birth.control, {"fault": f"could not {name}: {error.strerror or error}"})
            os._exit(init.FAULT)
    init.serve(birth.control, birth.image.environment)


@dataclass(slots=True, kw_only=True)
class _Alive:
    pid: int
    pidfd: int
    cgroup: Cgroup
    uid: int
    dead: bool = False
    released: bool = False


class Launcher:
    def __init__(self, server: socket.socket, plan: LauncherPlan, filters: tuple[bytes, ...]) -> None:
        self._server = server
        self._plan = plan
        self._filters = filters
        self._images = {image.name: image for image in plan.images}
        self._hierarchies = tuple(OpenHierarchy.of(h) for h in plan.hierarchies)
        self._ids = identity.IdPool(plan.first_id, plan.id_count) if plan.id_count else None
        self._sandboxes: dict[int, _Alive] = {}
        self._by_pidfd: dict[int, int] = {}
        self._namespaces = namespaces.all_of_this_kernel()
        self._poll = select.epoll()
        self._running = True

    def serve(self) -> None:
        self._poll.register(self._server, select.EPOLLIN)
        init.report(self._server, {"ready": os.getpid()})
        while self._running:
            for fd, _ in self._poll.poll(self._patience()):
                if fd == self._server.fileno():
                    self._request()
                else:
                    self._died(self._by_pidfd[fd])
            self._remove_the_dead()
        self._end()

    def _patience(self) -> float | None:
        """A cgroup can refuse to go for a moment after its last process did; then it is asked again."""
        return 0.002 if any(one.dead and one.released for one in self._sandboxes.values()) else None

    def _request(self) -> None:
        data = self._server.recv(MESSAGE_BYTES)
        if not data:
            self._running = False
            return
        message = json.loads(data)
        if "build" in message:
            plan = sandbox_plan_from(message["build"])
            try:
                self._build(plan)
            except OSError as error:
                init.report(self._server, {"failed": plan.sandbox_id, "reason": str(error)})
        elif message["release"] in self._sandboxes:
            self._release(message["release"])
        else:  # it was never made
            init.report(self._server, {"released": message["release"]})

    def _build(self, plan: SandboxPlan) -> None:
        cgroup = Cgroup(self._hierarchies, f"sandbox-{plan.sandbox_id}")
        uid = self._ids.take() if self._ids else os.geteuid()
        gid = uid if self._ids else os.getegid()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        into = -1
        try:
            cgroup.make(plan.cgroup)
            devices = mounts.make_devices(plan.sandbox_id)
            into = cgroup.into()
            pid, pidfd = identity.clone_as(uid, self._namespaces, signal.SIGCHLD, into)
            if pid == 0:
                ours.close()
                birth = Birth(
                    plan=plan,
                    image=self._images[plan.image],
                    devices=devices,
                    control=theirs,
                    filters=self._filters,
                )
                _be_born(birth)
            self._sandboxes[plan.sandbox_id] = _Alive(pid=pid, pidfd=pidfd, cgroup=cgroup, uid=uid)
            self._by_pidfd[pidfd] = plan.sandbox_id
            self._poll.register(pidfd, select.EPOLLIN)
            identity.map_ids(pid, uid, gid)
            ours.send(init.MAPPED)
            cgroup.attach(pid)
            ours.send(init.ATTACHED)
            reply = json.dumps({"built": plan.sandbox_id}).encode()
            socket.send_fds(self._server, [reply], [ours.fileno(), pidfd])
        except OSError:
            if plan.sandbox_id in self._sandboxes:
                self._release(plan.sandbox_id)
            else:
                cgroup.remove()
                mounts.remove_devices(plan.sandbox_id)
                if self._ids:
                    self._ids.give_back(uid)
            raise
        finally:
            ours.close()
            theirs.close()
            if into >= 0:
                os.close(into)

    def _release(self, sandbox_id: int) -> None:
        one = self._sandboxes[sandbox_id]
        one.released = True
        if not one.dead:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(one.pidfd, signal.SIGKILL)
            one.cgroup.lift_cpu_rate()

    def _died(self, sandbox_id: int) -> None:
        one = self._sandboxes[sandbox_id]
        os.waitid(os.P_PIDFD, one.pidfd, os.WEXITED)
        self._poll.unregister(one.pidfd)
        del self._by_pidfd[one.pidfd]
        os.close(one.pidfd)
        one.dead = True

    def _remove_the_dead(self) -> None:
        for sandbox_id, one in [*self._sandboxes.items()]:
            if one.dead and one.released and one.cgroup.remove():
                mounts.remove_devices(sandbox_id)
                if self._ids:
                    self._ids.give_back(one.uid)
                del self._sandboxes[sandbox_id]
                with contextlib.suppress(OSError):  # the server may be gone; then nobody waits for this
                    init.report(self._server, {"released": sandbox_id})

    def _end(self) -> None:
        """The server is gone: so is everything that it asked for."""
        for sandbox_id in [*self._sandboxes]:
            self._release(sandbox_id)
        while self._sandboxes:
            for fd, _ in self._poll.poll(self._patience()):
                if fd in self._by_pidfd:
                    self._died(self._by_pidfd[fd])
            self._remove_the_dead()


def _be_born(birth: Birth) -> None:
    """Never returns: what is above in the stack belongs to the launcher."""
    try:
        os.dup2(0, 2)  # the launcher's stderr is the server's log
        keep = sorted({0, 1, 2, birth.control.fileno()})
        for low, high in zip(keep, [*keep[1:], 2**31], strict=True):
            if low + 1 < high:
                syscalls.close_range(low + 1, high - 1)
        inside(birth)
    finally:
        os._exit(init.FAULT)


def _read(fd: int) -> bytes:
    with open(fd, "rb") as file:
        file.seek(0)
        return file.read()


def main(control: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    server = socket.socket(fileno=control)
    server.set_inheritable(False)
    _, fds, _, _ = socket.recv_fds(server, MESSAGE_BYTES, 3)
    encoded, *filters = (_read(fd) for fd in fds)
    plan = launcher_plan_from(encoded)
    try:
        launcher = Launcher(server, plan, tuple(filters))
        if os.geteuid() == 0:
            os.setgroups([])
            identity.keep_capabilities()
        else:
            identity.enter_own_user_namespace()
        syscalls.unshare(syscalls.CLONE_NEWNS)
        mounts.build_stage(plan)
    except OSError as error:
        init.report(server, {"fault": str(error)})
        sys.exit(init.FAULT)
    launcher.serve()
