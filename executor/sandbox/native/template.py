"""In the image's own interpreter: import the template's modules, then bear a sandbox each time the launcher asks.

Runs inside `sitecustomize`, which CPython imports when it has set itself up and before it looks at the file that it
was told to run. In a sandbox's heir (see `init.serve`) that import returns, and CPython goes on to run that file as
it always does. Builtin modules and ctypes only.
"""

import _signal  # type: ignore[import-not-found]  # `signal` loads `enum`
import _socket
import os
import select
import sys

from executor.sandbox.native import (
    birth,
    ending,
    identity,
    init,
    interpreter,
    mounts,
    namespaces,
    nursery,
    rehearsal,
    syscalls,
    wire,
)

_RECIPES = 4096
_COUNTED = (("max_inotify_instances", "max_user_instances"), ("max_inotify_watches", "max_user_watches"))
SHARES = 32
"""Sandboxes of one template that can be alive at one time and none be starved by the others."""
PARKED_NAME = b"executor-bears"
"""Of the template, and of its copies until they become programs."""


def run() -> None:
    """Returns in a program to be, and there alone."""
    control = _socket.socket(fileno=nursery.CONTROL)
    os.set_inheritable(nursery.CONTROL, False)  # noqa: FBT003
    try:
        template = _Template(control)
    except Exception as error:  # noqa: BLE001 - whatever a module of the image raises, the launcher is to hear it
        wire.say(control, "fault", f"{type(error).__name__}: {error}")
        os._exit(init.FAULT)
    pages = rehearsal.rehearse(nursery.SCRIPT)
    if pages is None:
        interpreter.settle((), dict(os.environ))
        return
    template.leave_image(pages)
    argv, environment = template.serve()
    interpreter.settle(argv[2:], environment)


def _share_out_watches() -> None:
    """The kernel counts what a sandbox watches also against this template's host id, which all its sandboxes have in
    common: so each may have its share of that and no more.
    """
    for ours, hosts in _COUNTED:
        limit = max(1, int(_read(f"/proc/sys/fs/inotify/{hosts}")) // SHARES)
        fd = os.open(f"/proc/sys/user/{ours}", os.O_WRONLY | os.O_CLOEXEC)
        os.write(fd, str(limit).encode())
        os.close(fd)


def _read(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, 64)
    finally:
        os.close(fd)


class _Template:
    def __init__(self, control: _socket.socket) -> None:
        """Raises whatever an import raises."""
        namespaces.die_with_parent()  # once more: the exec may have made the kernel forget it
        self._name = os.path.basename(sys.executable).encode()  # noqa: PTH119 - no pathlib here
        syscalls.name_process(PARKED_NAME)
        self._control = control
        self._image, modules, warm, self._masked, self._seccomp = wire.unpacked(wire.receive(control)[0])
        identity.keep_capabilities()
        self._networks = namespaces.Networks()
        self._flags = namespaces.own_of_this_kernel()
        self._poll = select.epoll()
        self._poll.register(control, select.EPOLLIN)
        self._alive: dict[int, namespaces.Network] = {}
        self._recipes: dict[tuple[object, ...], mounts.Recipe] = {}
        ending.arrange()
        interpreter.preload(modules, warm)
        ending.keep()
        self._pages: rehearsal.Ranges = ()

    def leave_image(self, pages: rehearsal.Ranges) -> None:
        """Nothing is imported from here on until a sandbox is inside its own."""
        self._pages = pages
        os.fchdir(nursery.STAGE)
        os.chroot(".")
        os.chdir("/")
        os.close(nursery.STAGE)
        mounts.leave_root()
        _share_out_watches()

    def serve(self) -> "wire.Plain":
        """(argv, environment) in a program to be."""
        wire.say(self._control, "ready")
        while True:
            for fd, _ in self._poll.poll():
                if fd in self._alive:
                    self._died(fd)
                elif (heritage := self._asked()) is not None:
                    syscalls.name_process(self._name)
                    return heritage

    def _asked(self) -> "wire.Plain":
        """Not None in an heir."""
        try:
            data, _ = wire.receive(self._control)
        except OSError:
            os._exit(0)  # the launcher went away
        number, plan, uid, own = wire.unpacked(data)
        try:
            return self._bear(number, plan, uid, own)
        except OSError as error:
            wire.say(self._control, "failed", number, str(error))
        return None

    def _bear(self, number: int, plan: "wire.Plain", uid: int, own: str) -> "wire.Plain":
        recipe = self._recipe(plan, own)
        ours, theirs = wire.pair()
        network = self._networks.enter()
        pid, pidfd = identity.clone_as(uid, self._flags, _signal.SIGCHLD, -1)
        if pid == 0:
            return birth.be_born(
                birth.Birth(
                    plan=plan,
                    environment=self._image.environment,
                    mounts=recipe,
                    seccomp=self._seccomp,
                    prepare=self._prepare,
                ),
                theirs,
            )
        self._networks.home()
        self._alive[pidfd] = network
        self._poll.register(pidfd, select.EPOLLIN)
        mounted = namespaces.hold_mounts(pid)
        try:
            identity.map_ids(pid, identity.one(identity.INNER_ID, uid), identity.one(identity.INNER_ID, uid))
            ours.send(init.MAPPED)
            wire.say(self._control, "born", number, fds=(ours.fileno(), pidfd, mounted))
        finally:
            os.close(mounted)
            ours.close()
            theirs.close()
        return None

    def _prepare(self) -> None:
        """In a copy of this process that is to become a program."""
        rehearsal.populate(self._pages)

    def _recipe(self, plan: "wire.Plain", own: str) -> "mounts.Recipe":
        """Kept for each kind and host id."""
        key = (own, plan.workspace_bytes, plan.workspace_inodes, plan.tmp_bytes, plan.tmp_inodes)
        if key not in self._recipes:
            if len(self._recipes) >= _RECIPES:
                self._recipes.clear()
            self._recipes[key] = mounts.recipe(self._image, plan, own, self._masked)
        return self._recipes[key]

    def _died(self, pidfd: int) -> None:
        os.waitid(os.P_PIDFD, pidfd, os.WEXITED)
        self._poll.unregister(pidfd)
        os.close(pidfd)
        self._networks.give_back(self._alive.pop(pidfd))
