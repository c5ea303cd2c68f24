"""The process that makes sandboxes. Started before the server has any thread, single-threaded, builtin modules and
ctypes only: what it holds in memory, each sandbox holds.

It speaks with the server over one SOCK_SEQPACKET socket: a plan first, then requests to build and to release. When
that socket closes it kills every sandbox and ends. Sandboxes that fork an interpreter are born by a template (see
`template`), which is a child of this process; their slots, cgroups and end are this process's affair as those of all
others.
"""

import _signal  # type: ignore[import-not-found]  # `signal` loads `enum`
import _socket
import gc
import os
import select
import sys

from executor.sandbox.native import birth, identity, init, mounts, namespaces, stage, syscalls, wire
from executor.sandbox.native.groups import Cgroup, OpenHierarchy
from executor.sandbox.native.nursery import Nursery

TYPE_CHECKING = False  # `typing` would cost each sandbox memory
if TYPE_CHECKING:
    from executor.sandbox.native.plan import LauncherPlan, SandboxPlan

TEMPLATE_IDS = 512
_RETRY_SECONDS = 0.002
_NAME = b"executor-launch"


class _Alive:
    """A sandbox that was born, until nothing of it is left."""

    def __init__(self, number: int, plan_number: int, plan: "SandboxPlan", cgroup: Cgroup) -> None:
        self.number, self.plan_number, self.plan, self.cgroup = number, plan_number, plan, cgroup
        self.pidfd = -1
        self.uid = -1
        """Of the launcher's own ids, or of its nursery's."""
        self.nursery: Nursery | None = None
        self.mounts = -1
        """A descriptor of its mount namespace (see `namespaces.hold_mounts`)."""
        self.network: namespaces.Network | None = None
        self.asked = False
        """Its template is to answer."""
        self.born = self.dead = self.released = False


class Launcher:
    def __init__(self, server: _socket.socket, plan: "LauncherPlan", seccomp: bytes, code: int) -> None:
        self._server = server
        self._plan = plan
        self._seccomp = seccomp
        self._images = {image.name: image for image in plan.images}
        self._hierarchies = tuple(OpenHierarchy(h) for h in plan.hierarchies)
        templates = sum(len(image.templates) for image in plan.images)
        self._block = min(TEMPLATE_IDS, plan.id_count // (templates + 1))
        """Host ids of each template."""
        own_ids = plan.id_count - templates * self._block
        self._ids = identity.IdPool(plan.first_id, own_ids) if plan.id_count else None
        self._next_block = plan.first_id + own_ids
        self._flags = namespaces.own_of_this_kernel()
        self._masked = mounts.what_to_mask()
        self._plans: dict[int, SandboxPlan] = {}
        self._recipes: dict[tuple[int, int], mounts.Recipe] = {}
        self._sandboxes: dict[int, _Alive] = {}
        self._by_pidfd: dict[int, int] = {}
        self._leaving: set[int] = set()
        """Dead or released, with something left."""
        self._poll = select.epoll()
        self._nurseries: dict[int, Nursery] = {}
        self._code = code
        self._running = True

    def settle_in(self) -> None:
        """In the namespaces in which it is to live. Raises OSError."""
        for image in self._plan.images:
            vars(image).update(files={}, links={})  # they lie in the stage now; here each sandbox would hold them
        self._networks = namespaces.Networks()

    def serve(self) -> None:
        self._poll.register(self._server, select.EPOLLIN)
        self._start_templates()
        gc.collect()
        syscalls.trim_memory()
        gc.freeze()  # a collection would copy what sandboxes share with this process
        gc.disable()
        wire.say(self._server, "ready", os.getpid())
        while self._running:
            for fd, _ in self._poll.poll(_RETRY_SECONDS if self._leaving else None):
                if fd == self._server.fileno():
                    self._request()
                elif fd in self._nurseries:
                    self._hear(self._nurseries[fd])
                elif fd in self._by_pidfd:
                    self._died(self._by_pidfd[fd])
            self._remove_the_dead()
        self._end()

    # --- what the server asks for -----------------------------------------------------------------------------------

    def _request(self) -> None:
        try:
            data, _ = wire.receive(self._server)
        except OSError:
            self._running = False
            return
        order, argument, *more = wire.unpacked(data)
        if order == "plan":
            self._plans[argument] = more[0]
            self._recipes = {key: recipe for key, recipe in self._recipes.items() if key[0] != argument}
        elif order == "build":
            self._build(argument, more[0])
        elif order == "give up":
            one = self._sandboxes.get(argument)
            if one and one.asked and one.nursery:
                self._lost(one.nursery, "it did not answer")
        else:
            for number in argument:
                self._let_go(number)

    def _let_go(self, number: int) -> None:
        if number in self._sandboxes:
            self._release(self._sandboxes[number])
        else:  # it was never made
            wire.say(self._server, "released", number)

    def _build(self, number: int, plan_number: int) -> None:
        plan = self._plans[plan_number]
        one = _Alive(number, plan_number, plan, Cgroup(self._hierarchies, f"sandbox-{number}"))
        self._sandboxes[number] = one
        try:
            one.cgroup.make(plan.cgroup)
            if plan.template:
                one.nursery = self._nursery(plan)
                one.uid = one.nursery.ask(number, plan)
                one.asked = True
            else:
                self._give_birth(one)
        except OSError as error:
            self._failed(one, str(error))

    def _give_birth(self, one: _Alive) -> None:
        one.uid = self._ids.take() if self._ids else os.geteuid()
        recipe = self._recipe(one)
        into = one.cgroup.into()
        ours, theirs = wire.pair()
        try:
            one.network = self._networks.enter()
            pid, pidfd = identity.clone_as(one.uid, self._flags, _signal.SIGCHLD, into)
            if pid == 0:
                birth.be_born(
                    birth.Birth(
                        plan=one.plan,
                        environment=self._images[one.plan.image].environment,
                        mounts=recipe,
                        seccomp=self._seccomp,
                        prepare=None,
                    ),
                    theirs,
                )
            self._networks.home()
            self._lives(one, pidfd)
            one.mounts = namespaces.hold_mounts(pid)
            gid = one.uid if self._ids else os.getegid()
            identity.map_ids(pid, identity.one(identity.INNER_ID, one.uid), identity.one(identity.INNER_ID, gid))
            ours.send(init.MAPPED)
            one.cgroup.attach(pid, also_v2=False)
            ours.send(init.ATTACHED)
            wire.say(self._server, "built", one.number, fds=(ours.fileno(), pidfd))
        except OSError:
            self._networks.home()
            raise
        finally:
            ours.close()
            theirs.close()
            if into >= 0:
                os.close(into)

    def _recipe(self, one: _Alive) -> "mounts.Recipe":
        """Kept for each kind and host id."""
        key = (one.plan_number, one.uid)
        if key not in self._recipes:
            own = stage.make_own(one.uid)
            self._recipes[key] = mounts.recipe(self._images[one.plan.image], one.plan, own, self._masked)
        return self._recipes[key]

    def _lives(self, one: _Alive, pidfd: int) -> None:
        one.born, one.pidfd = True, pidfd
        self._by_pidfd[pidfd] = one.number
        self._poll.register(pidfd, select.EPOLLIN)

    def _failed(self, one: _Alive, reason: str) -> None:
        if not one.released:
            try:
                wire.say(self._server, "failed", one.number, reason)
            except OSError:
                self._running = False  # the server is gone, and everything with it
        self._release(one)

    # --- templates --------------------------------------------------------------------------------------------------

    def _start_templates(self) -> None:
        """One that cannot be started is told, and done without."""
        for image in self._plan.images:
            for template in image.templates:
                try:
                    nursery = Nursery(
                        image,
                        template,
                        ids=self._take_block() if self._ids else None,
                        code=self._code,
                        seccomp=self._seccomp,
                        masked=self._masked,
                    )
                except OSError as error:
                    wire.say(self._server, "template", f"{image.name}/{template.name}", str(error))
                else:
                    self._nurseries[nursery.fd] = nursery
                    self._poll.register(nursery.fd, select.EPOLLIN)

    def _take_block(self) -> tuple[int, int]:
        self._next_block += self._block
        return self._next_block - self._block, self._block

    def _nursery(self, plan: "SandboxPlan") -> Nursery:
        for nursery in self._nurseries.values():
            if (nursery.image, nursery.template) == (plan.image, plan.template):
                return nursery
        raise OSError(f"the template {plan.template} of image {plan.image} does not live")

    def _hear(self, nursery: Nursery) -> None:
        """What a template says is not trusted: it is a program of its image. The first word of nonsense is its last."""
        try:
            words, fds = nursery.hear()
        except OSError:
            self._lost(nursery, "it ended")
            return
        try:
            if words[0] in {"ready", "fault"} and not nursery.told:
                nursery.told = True
                self._tell(nursery, "" if words[0] == "ready" else " ".join(words[1:]))
            elif not self._take(nursery, words, fds):
                self._lost(nursery, "it spoke nonsense")
        finally:
            for fd in fds:
                os.close(fd)

    def _tell(self, nursery: Nursery, reason: str) -> None:
        wire.say(self._server, "template", f"{nursery.image}/{nursery.template}", reason)

    def _lost(self, nursery: Nursery, reason: str) -> None:
        """It ends, and with it, because it is the first process of their pid namespaces' parent, all that it bore."""
        self._poll.unregister(nursery.fd)
        del self._nurseries[nursery.fd]
        nursery.close()
        self._tell(nursery, reason)
        for one in [*self._sandboxes.values()]:
            if one.nursery is nursery and not one.born:
                one.asked = False
                self._failed(one, "its template ended")

    def _take(self, nursery: Nursery, words: list[str], fds: tuple[int, ...]) -> bool:
        """A template bore a sandbox, or could not. False where this is no answer to anything."""
        one = self._asked_of(nursery, words)
        if one is None:
            return False
        one.asked = False
        if words[0] == "failed":
            self._failed(one, " ".join(words[2:]))
            return True
        if not _are_a_sandbox(fds):
            self._failed(one, "its template gave no sandbox")
            return False
        control, pidfd, mounted = fds
        try:
            self._lives(one, os.dup(pidfd))
            one.mounts = os.dup(mounted)
            if one.released:  # meanwhile: nobody wants it any more
                self._release(one)
                return True
            one.cgroup.attach(_pid_of(pidfd), also_v2=True)
            wire.say(self._server, "built", one.number, fds=(control, pidfd))
            os.write(control, init.ATTACHED)
        except OSError as error:
            self._failed(one, str(error))
        return True

    def _asked_of(self, nursery: Nursery, words: list[str]) -> _Alive | None:
        """The sandbox that these words are about."""
        if len(words) < 2 or words[0] not in {"born", "failed"}:  # noqa: PLR2004 - the word, and a number
            return None
        try:
            one = self._sandboxes.get(int(words[1]))
        except ValueError:
            return None
        return one if one is not None and one.nursery is nursery and one.asked else None

    # --- the end of sandboxes ---------------------------------------------------------------------------------------

    def _release(self, one: _Alive) -> None:
        one.released = True
        if one.asked:
            return  # it may be alive already; its template says so, or ends
        if one.born and not one.dead:
            _kill(one.pidfd)
            one.cgroup.lift_cpu_rate()
        elif not one.born:
            one.dead = True
            self._leaving.add(one.number)
        else:
            self._leaving.add(one.number)

    def _died(self, sandbox_id: int) -> None:
        one = self._sandboxes[sandbox_id]
        if not one.plan.template:
            os.waitid(os.P_PIDFD, one.pidfd, os.WEXITED)
        self._poll.unregister(one.pidfd)
        del self._by_pidfd[one.pidfd]
        os.close(one.pidfd)
        one.dead = True
        if one.released:
            self._leaving.add(sandbox_id)

    def _remove_the_dead(self) -> None:
        """A cgroup can refuse to go for a moment after its last process did; then it is asked again."""
        for sandbox_id in [*self._leaving]:
            one = self._sandboxes[sandbox_id]
            if one.mounts >= 0:
                os.close(one.mounts)
                one.mounts = -1
            if not one.cgroup.remove():
                continue
            self._leaving.discard(sandbox_id)
            del self._sandboxes[sandbox_id]
            if one.network:
                self._networks.give_back(one.network)
            if one.nursery:
                one.nursery.give_back(one.uid)
            elif self._ids and one.uid >= 0:
                self._ids.give_back(one.uid)
            try:
                wire.say(self._server, "released", sandbox_id)
            except OSError:
                continue  # the server is gone, so nobody waits for this

    def _end(self) -> None:
        """The server is gone: so is everything that it asked for."""
        for one in [*self._sandboxes.values()]:
            one.asked = False  # what is born now dies with its template, and that with this process
            self._release(one)
        self._remove_the_dead()
        while self._sandboxes:
            for fd, _ in self._poll.poll(_RETRY_SECONDS if self._leaving else None):
                if fd in self._by_pidfd:
                    self._died(self._by_pidfd[fd])
            self._remove_the_dead()
        for nursery in self._nurseries.values():
            nursery.close()


def _kill(pidfd: int) -> None:
    try:
        _signal.pidfd_send_signal(pidfd, _signal.SIGKILL)
    except ProcessLookupError:
        return


def _are_a_sandbox(fds: tuple[int, ...]) -> bool:
    """Its control socket, its pidfd, its mount namespace."""
    links = [os.readlink(f"/proc/self/fd/{fd}") for fd in fds]  # noqa: PTH115 - no pathlib here
    kinds = (("socket:[",), ("anon_inode:[pidfd]", "pidfd:["), ("mnt:[",))
    return len(links) == len(kinds) and all(map(str.startswith, links, kinds))


def _pid_of(pidfd: int) -> int:
    """As this process sees it. Raises OSError where it is dead."""
    with open(f"/proc/self/fdinfo/{pidfd}", "rb") as file:  # noqa: PTH123 - no pathlib here
        for line in file:
            name, _, value = line.partition(b":")
            if name == b"Pid" and int(value) > 0:
                return int(value)
    raise OSError("the sandbox died at its birth; are its limits very low?")


def main(control: int) -> None:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    os.umask(0o022)
    server = _socket.socket(fileno=control)
    _, fds = wire.receive(server, 3)
    os.set_inheritable(control, False)  # noqa: FBT003
    syscalls.name_process(_NAME)
    plan = wire.unpacked(wire.read_file(fds[0]))
    seccomp = wire.read_file(fds[1])
    try:
        launcher = Launcher(server, plan, seccomp, fds[2])
        if os.geteuid() == 0:
            os.setgroups([])
            identity.keep_capabilities()
        else:
            identity.enter_own_user_namespace()
        syscalls.unshare(syscalls.CLONE_NEWNS)
        stage.build(plan)
        launcher.settle_in()
    except OSError as error:
        wire.say(server, "fault", str(error))
        sys.exit(init.FAULT)
    launcher.serve()
