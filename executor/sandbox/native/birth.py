"""The list of what happens between the birth of a sandbox and the moment it waits for its one command. Imported by the
launcher and by templates: builtin modules and ctypes only.
"""

import os

from executor.sandbox.native import identity, init, mounts, namespaces, rlimits, syscalls, wire

TYPE_CHECKING = False  # `typing` would cost each sandbox memory
if TYPE_CHECKING:
    import _socket
    from collections.abc import Callable

    from executor.sandbox.native.plan import SandboxPlan


class Birth:
    """What a new sandbox knows."""

    def __init__(
        self,
        *,
        plan: "SandboxPlan",
        environment: dict[str, str],
        mounts: "mounts.Recipe",
        seccomp: bytes,
        prepare: "Callable[[], None] | None",
    ) -> None:
        """`environment`: of its image. `mounts`: how to put its root together. `seccomp`: its filter. `prepare`: not
        None where its program is to be a copy of this interpreter, which calls it at once.
        """
        self.plan, self.environment, self.mounts = plan, environment, mounts
        self.seccomp, self.prepare = seccomp, prepare


def be_born(birth: Birth, control: "_socket.socket") -> "wire.Plain":
    """In the child of a clone. Returns in a sandbox's heir alone (see `init.serve`): what is above in the stack
    belongs to somebody else.
    """
    born = False
    try:
        os.dup2(0, 2)  # the parent's stderr is the server's log
        keep = sorted({0, 1, 2, control.fileno()})
        for low, high in zip(keep, [*keep[1:], 2**31], strict=True):
            if low + 1 < high:
                syscalls.close_range(low + 1, high - 1)
        heritage = _inside(birth, control)
        born = True
        return heritage
    finally:
        if not born:
            os._exit(init.FAULT)


def _inside(birth: Birth, control: "_socket.socket") -> "wire.Plain":
    """PID 1 of a new sandbox, in its new namespaces. The order is what makes it safe."""
    steps: tuple[tuple[str, Callable[[], None]], ...] = (
        ("wait for ids", lambda: init.expect(control, init.MAPPED)),
        ("become the inner user", lambda: identity.become(identity.INNER_ID, identity.INNER_ID)),
        ("die with the launcher", namespaces.die_with_parent),
        ("put the root together", lambda: mounts.follow(birth.mounts)),
        ("enter the root", mounts.enter_root),
        ("name the host", namespaces.name_host),
        ("wait for the cgroup", lambda: init.expect(control, init.ATTACHED)),
        ("hide the cgroup", namespaces.hide_cgroup),
        ("limit resources", lambda: rlimits.apply(birth.plan.rlimits)),
        ("forbid core files", rlimits.forbid_core_files),
        ("drop capabilities", identity.drop_capabilities),
        ("hide from the program", lambda: syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)),
        ("forbid new privileges", lambda: syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)),
        ("filter system calls", lambda: syscalls.load_seccomp(birth.seccomp)),
    )
    for name, step in steps:
        _tried(control, name, step)
    parked = lambda: init.serve(control, birth.environment, prepare=birth.prepare)  # noqa: E731 - like the steps
    return _tried(control, "wait for its command", parked)


def _tried(control: "_socket.socket", name: str, step: "Callable[[], wire.Plain]") -> "wire.Plain":
    try:
        return step()
    except OSError as error:
        wire.say(control, "fault", f"could not {name}: {error.strerror or error}")
        os._exit(init.FAULT)
