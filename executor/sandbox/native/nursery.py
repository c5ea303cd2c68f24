"""The launcher's side of a template: starts the image's interpreter inside walls of its own, and asks it for sandboxes.

A template runs the image's code, so it is not trusted: it lives in namespaces of its own, sees nothing of the host
but the images, and is root over a few host ids that exist only for its own sandboxes. Imported by the launcher:
builtin modules and ctypes only.
"""

import _signal  # type: ignore[import-not-found]  # `signal` loads `enum`
import _socket
import fcntl
import os

from executor.sandbox.native import identity, init, mounts, namespaces, stage, syscalls, wire
from executor.sandbox.native.wire import Record

TYPE_CHECKING = False  # `typing` would cost each sandbox memory
if TYPE_CHECKING:
    from typing import NoReturn

    from executor.sandbox.native.plan import ImagePlan, SandboxPlan, TemplatePlan

CONTROL, STAGE, CODE = 3, 4, 5
"""Descriptors that the interpreter is started with."""
SCRIPT = "main.py"
"""What it was told to run, and what it runs once it is a sandbox's program."""
_OUT_OF_THE_WAY = 64
_NAMESPACES = namespaces.ALL | syscalls.CLONE_NEWCGROUP
_ROOM = Record(workspace_bytes=16 << 20, workspace_inodes=4096, tmp_bytes=16 << 20, tmp_inodes=4096)


class Nursery:
    def __init__(  # noqa: PLR0913 - what a template is made of
        self,
        image: "ImagePlan",
        template: "TemplatePlan",
        *,
        ids: tuple[int, int] | None,
        code: int,
        seccomp: bytes,
        masked: tuple[tuple[str, ...], tuple[str, ...]],
    ) -> None:
        """`ids`: the first and the number of its host ids; None for an ordinary user, who has one. `code`: a
        descriptor of the archive that it imports us from. Raises OSError.
        """
        self.image, self.template = image.name, template.name
        self.told = False
        """Whether it has said that it is ready, or why it is not."""
        self._first = ids[0] if ids else -1
        self._free = identity.IdPool(1, ids[1] - 1) if ids else None
        ours, theirs = wire.pair()
        uid = ids[0] if ids else os.geteuid()
        gid = ids[0] if ids else os.getegid()
        recipe = mounts.recipe(image, _ROOM, stage.make_own(uid), masked, owner=0)
        pid, self.pidfd = identity.clone_as(uid, _NAMESPACES, _signal.SIGCHLD, -1)
        if pid == 0:
            ours.close()
            _become(image, template, recipe, theirs, code)
        theirs.close()
        self._socket = ours
        self.fd = ours.fileno()
        try:
            maps = (f"0 {ids[0]} {ids[1]}",) * 2 if ids else (identity.one(0, uid), identity.one(0, gid))
            identity.map_ids(pid, *maps)
            ours.send(init.MAPPED)
            layers = tuple({"target": layer.target, **wire.A_RECORD} for layer in image.layers)
            walls = {"name": image.name, "layers": layers, "environment": image.environment, **wire.A_RECORD}
            ours.send(wire.packed((walls, template.modules, template.warm, masked, seccomp)))
        except OSError:
            self.close()
            raise

    def ask(self, number: int, plan: "SandboxPlan") -> int:
        """For a sandbox. The id that it takes, to be given back. Raises OSError."""
        inner = self._free.take() if self._free else 0
        own = stage.make_own(self._first + inner if self._free else os.geteuid())
        rlimits = {**vars(plan.rlimits), **wire.A_RECORD}
        order = {**vars(plan), "rlimits": rlimits, **wire.A_RECORD}
        self._socket.send(wire.packed((number, order, inner, own)))
        return inner

    def give_back(self, inner: int) -> None:
        if self._free:
            self._free.give_back(inner)

    def hear(self) -> tuple[list[str], tuple[int, ...]]:
        """Words, and what came with them. Raises OSError where it has ended."""
        data, fds = wire.receive(self._socket, 3)
        return data.decode("utf-8", "replace").split(" ", 2), fds

    def close(self) -> None:
        """It ends, with all that it bore."""
        self._socket.close()
        try:  # noqa: SIM105 - `contextlib` costs memory
            _signal.pidfd_send_signal(self.pidfd, _signal.SIGKILL)
        except ProcessLookupError:
            pass
        os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED)
        os.close(self.pidfd)


def _become(
    image: "ImagePlan",
    template: "TemplatePlan",
    recipe: "mounts.Recipe",
    control: _socket.socket,
    code: int,
) -> "NoReturn":
    """In the child of the clone: behind walls, then the interpreter. Any failure ends it, which the launcher hears."""
    try:
        init.expect(control, init.MAPPED)
        identity.become(0, 0)
        namespaces.die_with_parent()
        namespaces.name_host()
        stage.mount_own_proc()
        mounts.follow(recipe)
        root = os.open("/", os.O_PATH | os.O_DIRECTORY)
        os.chroot(mounts.SANDBOX_ROOT)
        os.chdir("/workspace")
        syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
        _arrange(control.detach(), root, code)
        environment = init.BASE_ENVIRONMENT | image.environment | {"PYTHONPATH": f"/proc/self/fd/{CODE}"}
        os.execve(template.interpreter, ["python3", SCRIPT], environment)  # noqa: S606
    except OSError as error:
        os.write(2, f"template {image.name}/{template.name}: {error}\n".encode())
    finally:
        os._exit(init.FAULT)


def _arrange(*wanted: int) -> None:
    """Pipes as 0, 1 and 2, as a program has them; `wanted` from 3 on; nothing else."""
    streams = (os.pipe(), os.pipe(), os.pipe())
    inner = (streams[0][0], streams[1][1], streams[2][1])
    other = (streams[0][1], streams[1][0], streams[2][0])
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD, _OUT_OF_THE_WAY) for fd in (*inner, *wanted, *other)]
    for number, fd in enumerate(high):
        os.dup2(fd, number)
    syscalls.close_range(len(high), 2**31)
