"""The native backend: our own Linux namespaces. The async side; what touches the kernel is done by the launcher."""

import asyncio
import contextlib
import itertools
import os
import resource
import secrets
import time
from collections import defaultdict
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from executor.model.errors import ErrorCode, ErrorDetail, InvocationError, Unavailable
from executor.model.limits import Limits
from executor.model.outcome import Isolation
from executor.model.run import Process, SandboxSpec
from executor.sandbox.native import cgroups, choice, images, seccomp
from executor.sandbox.native.channel import Channel, LauncherDied
from executor.sandbox.native.plan import Hierarchy, ImagePlan, LauncherPlan, Rlimits, SandboxPlan
from executor.sandbox.native.pool import Kind, Pool, PoolSettings
from executor.sandbox.native.reaper import Reaper
from executor.sandbox.native.sandbox import NativeSandbox

_DELEGATE = "run as root, or with a delegated cgroup: systemd-run --user --scope -p Delegate=yes executor ..."
DEGRADABLE = {
    "memory": ("memory is limited for each process, not for the tree", _DELEGATE),
    "pids": ("the number of processes is limited by rlimit", _DELEGATE),
    "cpu": ("processor time is limited for each process, not for the tree, and its rate is not", _DELEGATE),
}
"""What may be missing where the operator allowed it by name: what holds instead, and how to mend it."""


MAX_LAUNCHERS = 4
BIRTH_SECONDS = 10.0
"""For a template, which is a program of its image and may do as it likes, to bear a sandbox."""
NEXT_TO_NOTHING = 2
"""Sandboxes that a launcher is asked for before another one is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeSettings:
    state_dir: Path
    images_dir: Path | None = None
    allow_degraded: frozenset[str] = frozenset()
    """Names of DEGRADABLE."""
    first_id: int = 1_000_000
    id_count: int = 65_536
    """Host uids and gids for sandboxes; of no effect for an ordinary user, who has one id."""
    pool: PoolSettings = field(default_factory=PoolSettings)
    launchers: int = field(default_factory=lambda: min(MAX_LAUNCHERS, os.cpu_count() or 1))
    """Processes that make sandboxes, so that several cores do."""
    templates: bool = True
    """Fork interpreters where an image declares templates; otherwise each call starts its own."""


REMOVAL_SECONDS = 1.0
"""A cgroup can refuse to go for a moment after its last process did."""


class NativeBackend:
    name = "native"

    def __init__(self, settings: NativeSettings) -> None:
        self._settings = settings
        self._channels = [Channel(self._template_told) for _ in range(settings.launchers)]
        self._told = asyncio.Event()
        self._expected: defaultdict[str, list[SandboxSpec]] = defaultdict(list)
        """By image: what its templates may be asked for."""
        self._numbers = itertools.count(1)
        self._images: dict[str, ImagePlan] = {}
        self._interpreters: dict[str, dict[str, str]] = {}
        self._hierarchies: tuple[Hierarchy, ...] = ()
        self._counted = cgroups.CounterFiles(())
        self._missing: dict[str, str] = {}
        self._open: dict[NativeSandbox, tuple[Channel, int, Kind]] = {}
        self._in_use: set[NativeSandbox] = set()
        self._pool = Pool(self._make, settings.pool, makers=settings.launchers)
        self._reaper = Reaper(self._clear)
        self._seccomp = b""
        self._launching = asyncio.Lock()
        self._started = False

    async def start(self) -> None:
        """Raises Unavailable, naming what this host cannot enforce and what to do about it."""
        _raise_descriptor_limit()
        self._seccomp = seccomp.compile_filter()
        found = [images.host_image(), *(images.built_images(d) if (d := self._settings.images_dir) else ())]
        if not self._settings.templates:
            found = [replace(image, templates=()) for image in found]
        self._images = {image.name: image for image in found}
        self._interpreters = {image.name: images.interpreters(image) for image in found}
        name = f"{cgroups.PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
        self._hierarchies, self._missing = cgroups.locate(name)
        try:
            self._refuse_what_is_not_allowed()
            self._counted = cgroups.CounterFiles(self._hierarchies)
            await _all(self._launch(channel) for channel in self._channels)
        except BaseException:  # also when cancelled: nobody calls stop for what has not started
            for channel in self._channels:
                await channel.stop()
            cgroups.remove_base(self._hierarchies)
            raise
        self._started = True
        self._pool.start()

    async def _launch(self, channel: Channel) -> None:
        stage = self._settings.state_dir / "stage"
        stage.mkdir(parents=True, exist_ok=True)
        number, count = self._channels.index(channel), len(self._channels)
        ids = self._settings.id_count // count
        turns = itertools.count()
        shared = tuple(
            replace(image, templates=tuple(one for one in image.templates if next(turns) % count == number))
            for image in self._images.values()
        )
        plan = LauncherPlan(
            stage=str(stage),
            images=shared,
            hierarchies=self._hierarchies,
            first_id=self._settings.first_id + number * ids,
            id_count=ids if os.geteuid() == 0 else 0,
        )
        await channel.start(plan, self._seccomp)

    async def _relaunch(self, channel: Channel) -> None:
        """The launcher was killed, and the kernel has killed every sandbox of it; the next call gets a new one."""
        async with self._launching:
            if not self._started:
                raise LauncherDied("the backend is stopped")
            if not channel.alive:
                await channel.stop()
                await self._launch(channel)

    def _refuse_what_is_not_allowed(self) -> None:
        refused = {name: why for name, why in self._missing.items() if name not in self._settings.allow_degraded}
        if refused:
            reasons = "; ".join(dict.fromkeys(refused.values()))
            remedies = "; ".join(dict.fromkeys(DEGRADABLE[name][1] for name in refused))
            raise Unavailable(
                f"this host does not let this user limit {', '.join(refused)} of a process tree: {reasons}. To mend "
                f"it, {remedies}. To run without, allow it by name: "
                + " ".join(f"--allow-degraded {name}" for name in refused)
            )

    async def stop(self) -> None:
        self._started = False
        await self._pool.stop()
        await _all(sandbox.close() for sandbox in [*self._open])
        await self._reaper.drained()
        await _all(channel.stop() for channel in self._channels)
        cgroups.remove_sandboxes(self._hierarchies)
        with contextlib.suppress(TimeoutError):  # the next start sweeps what is left
            async with asyncio.timeout(REMOVAL_SECONDS):
                while not cgroups.remove_base(self._hierarchies):
                    await asyncio.sleep(REMOVAL_SECONDS / 100)
                    cgroups.remove_sandboxes(self._hierarchies)
        self._hierarchies = ()

    def images(self) -> Sequence[str]:
        return sorted(self._images)

    def has_program(self, image: str, program: str) -> bool:
        return image in self._images and images.find_program(self._images[image], program)

    def expect(self, calls: Iterable[tuple[SandboxSpec, Sequence[str]]]) -> None:
        """Sandboxes for these are made ahead, as many as the pool keeps of each kind; for a template once it is
        ready.
        """
        for spec, argv in calls:
            image = self._images.get(spec.image)
            if image and choice.may_serve(argv, self._interpreters[image.name]):
                self._expected[image.name].append(spec)
                self._pool.expect(
                    Kind.of(spec, one.name) for one in image.templates if self._bearer(image.name, one.name)
                )
            elif image:
                self._pool.expect([Kind.of(spec)])

    def _template_told(self, image: str, template: str, reason: str) -> None:
        self._told.set()
        if reason:
            return
        self._pool.expect(Kind.of(spec, template) for spec in self._expected[image])

    def templates(self) -> dict[str, str]:
        """`image/template` -> why it is not there, empty where it is; absent while it still starts."""
        return {name: why for channel in self._channels for name, why in channel.templates.items()}

    async def templates_are_told(self) -> None:
        """Returns when each that the images declare is ready, or known not to be there."""
        declared = sum(len(image.templates) for image in self._images.values())
        while len(self.templates()) < declared:
            self._told.clear()
            await self._told.wait()

    async def open(self, spec: SandboxSpec, process: Process | None = None) -> NativeSandbox:
        """Raises InvocationError(SANDBOX_UNAVAILABLE)."""
        image = self._images.get(spec.image)
        if image is None:
            raise _unavailable(f"there is no image {spec.image!r} here; there are: {', '.join(self.images())}")
        if spec.network != "none":
            raise _unavailable(f"the native backend has no network {spec.network!r}, only `none`")
        began = time.monotonic()
        await self._reaper.room()
        if template := self._template(image, process):
            try:
                return await self._opened(spec, image, template, began)
            except InvocationError:  # the template ended just now: nothing of the call has run, and a start is as good
                return await self._opened(spec, image, "", began)
        return await self._opened(spec, image, "", began)

    async def _opened(self, spec: SandboxSpec, image: ImagePlan, template: str, began: float) -> NativeSandbox:
        kind = Kind.of(spec, template)
        sandbox = self._pool.take(kind)
        prepared = "pooled" if sandbox else "on_demand"
        try:
            sandbox = sandbox or await self._make(kind)
        except BaseException:  # also when cancelled
            self._pool.given_back(kind)
            raise
        self._in_use.add(sandbox)
        isolation = self._isolation(spec, image, f"{prepared}+template:{template}" if template else prepared)
        lower = self._rlimits(spec.limits) if "cpu" in self._missing else None  # no other differs within a kind
        sandbox.adopt(spec.limits, lower, isolation, (time.monotonic() - began) * 1000)
        return sandbox

    def _template(self, image: ImagePlan, process: Process | None) -> str:
        """Of those that are ready. Nobody waits for one that is not."""
        ready = [one for one in image.templates if self._bearer(image.name, one.name)]
        if not ready or process is None:
            return ""
        chosen = choice.choose(ready, process, self._interpreters[image.name])
        return chosen.name if chosen else ""

    def _bearer(self, image: str, template: str) -> Channel | None:
        return next((channel for channel in self._channels if channel.has_template(image, template)), None)

    def _least_busy(self) -> Channel:
        """The first one that has next to nothing to do: sandboxes of one launcher have its memory in common."""
        idle = (channel for channel in self._channels if channel.building < NEXT_TO_NOTHING)
        return next(idle, None) or min(self._channels, key=lambda channel: channel.building)

    async def _make(self, kind: Kind) -> NativeSandbox:
        number = next(self._numbers)
        channel = self._least_busy()
        if kind.template:
            channel = self._bearer(kind.spec.image, kind.template) or channel
        try:
            async with asyncio.timeout(BIRTH_SECONDS if kind.template else None):
                control, pidfd = await self._build(channel, number, self._plan(kind))
        except TimeoutError:
            self._reaper.expect(self._give_up(channel, number, 0.0))
            raise _unavailable(f"the template {kind.template} did not answer in {BIRTH_SECONDS:g} s") from None
        except (OSError, LauncherDied, Unavailable) as error:
            raise _unavailable(f"the sandbox could not be made: {error}") from error
        except asyncio.CancelledError:
            self._reaper.expect(self._give_up(channel, number, BIRTH_SECONDS))
            raise
        sandbox = NativeSandbox(
            number=number,
            control=control,
            pidfd=pidfd,
            counters=cgroups.Counters(self._counted, cgroups.group(number)),
            release=self._release,
        )
        self._open[sandbox] = (channel, channel.generation, kind)
        try:
            await sandbox.parked()
        except BaseException:  # also when cancelled: nobody else knows of this sandbox yet
            await sandbox.close()
            raise
        return sandbox

    async def _give_up(self, channel: Channel, number: int, patience: float) -> None:
        """A sandbox that is still being made, and with it a template that does not answer for so long."""
        released = asyncio.ensure_future(channel.release(number))
        if not (await asyncio.wait((released,), timeout=patience))[0]:
            channel.give_up(number)
            await released

    async def _build(self, channel: Channel, number: int, plan: SandboxPlan) -> tuple[int, int]:
        """Tried once more where the launcher turns out to be gone: nothing of the call has run yet."""
        if channel.alive:
            with contextlib.suppress(LauncherDied):
                return await channel.build(number, plan)
        await self._relaunch(channel)
        cgroups.remove_sandbox(self._hierarchies, number)  # what the one that died may have begun
        return await channel.build(number, plan)

    async def _release(self, sandbox: NativeSandbox) -> None:
        """Its tree is dead; the rest is cleared away when the answer is on its way."""
        self._reaper.take(sandbox)

    async def _clear(self, sandbox: NativeSandbox) -> None:
        channel, generation, kind = self._open[sandbox]
        sandbox.forget()
        if channel.generation == generation:
            await channel.release(sandbox.number)
        if channel.generation != generation or not channel.alive:
            cgroups.remove_sandbox(self._hierarchies, sandbox.number)
        del self._open[sandbox]
        if sandbox in self._in_use:
            self._in_use.discard(sandbox)
            self._pool.given_back(kind)

    def _plan(self, kind: Kind) -> SandboxPlan:
        limits = kind.spec.limits
        return SandboxPlan(
            image=kind.spec.image,
            template=kind.template,
            workspace_bytes=limits.workspace_bytes,
            workspace_inodes=limits.workspace_inodes,
            tmp_bytes=limits.tmp_bytes,
            tmp_inodes=limits.tmp_inodes,
            rlimits=self._rlimits(limits),
            cgroup=cgroups.limits(limits.memory_bytes, limits.processes, limits.cpu_cores),
        )

    def _rlimits(self, limits: Limits) -> Rlimits:
        """Those that hold in any case, and those that stand in for a controller that is missing."""
        return Rlimits(
            open_files=limits.open_files,
            file_bytes=limits.file_bytes,
            data_bytes=limits.memory_bytes if "memory" in self._missing else 0,
            processes=limits.processes + 1 if "pids" in self._missing else 0,
            cpu_seconds=max(1, int(limits.cpu_seconds)) if "cpu" in self._missing else 0,
        )

    def _isolation(self, spec: SandboxSpec, image: ImagePlan, prepared: str) -> Isolation:
        return Isolation(
            backend=self.name,
            prepared=prepared,
            image=image.name,
            image_digest=image.digest,
            network=spec.network,
            limits=spec.limits,
            degraded=tuple(f"{name}: {DEGRADABLE[name][0]}" for name in sorted(self._missing)),
        )


async def _all(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Raises what the first of them raises, when all have ended."""
    try:
        async with asyncio.TaskGroup() as group:
            for one in work:
                group.create_task(one)
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None


def _unavailable(message: str) -> InvocationError:
    return InvocationError(
        ErrorDetail(
            code=ErrorCode.SANDBOX_UNAVAILABLE,
            message=message,
            suggestion="Tell the operator; `executor doctor` says what this host can do.",
        )
    )


def _raise_descriptor_limit() -> None:
    """A running sandbox costs the server nine descriptors."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
