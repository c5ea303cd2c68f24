"""The native backend: our own Linux namespaces. The async side; what touches the kernel is done by the launcher."""

import asyncio
import contextlib
import itertools
import os
import resource
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from executor.model.errors import ErrorCode, ErrorDetail, InvocationError, Unavailable
from executor.model.limits import Limits
from executor.model.outcome import Isolation
from executor.model.run import SandboxSpec
from executor.sandbox.native import cgroups, images, seccomp
from executor.sandbox.native.channel import Channel, LauncherDied
from executor.sandbox.native.plan import Hierarchy, ImagePlan, LauncherPlan, Rlimits, SandboxPlan
from executor.sandbox.native.pool import Pool
from executor.sandbox.native.sandbox import NativeSandbox

_DELEGATE = "run as root, or with a delegated cgroup: systemd-run --user --scope -p Delegate=yes executor ..."
DEGRADABLE = {
    "memory": ("memory is limited for each process, not for the tree", _DELEGATE),
    "pids": ("the number of processes is limited by rlimit", _DELEGATE),
    "cpu": ("processor time is limited for each process, not for the tree, and its rate is not", _DELEGATE),
}
"""What may be missing where the operator allowed it by name: what holds instead, and how to mend it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeSettings:
    state_dir: Path
    images_dir: Path | None = None
    allow_degraded: frozenset[str] = frozenset()
    """Names of DEGRADABLE."""
    first_id: int = 1_000_000
    id_count: int = 65_536
    """Host uids and gids for sandboxes; of no effect for an ordinary user, who has one id."""
    pool_size: int = 2
    """Sandboxes kept ready of each kind that was asked for lately; 0 makes each one on demand."""


REMOVAL_SECONDS = 1.0
"""A cgroup can refuse to go for a moment after its last process did."""


class NativeBackend:
    name = "native"

    def __init__(self, settings: NativeSettings) -> None:
        self._settings = settings
        self._channel = Channel()
        self._numbers = itertools.count(1)
        self._images: dict[str, ImagePlan] = {}
        self._hierarchies: tuple[Hierarchy, ...] = ()
        self._missing: dict[str, str] = {}
        self._open: set[NativeSandbox] = set()
        self._pool = Pool(self._make, settings.pool_size)
        self._filters: tuple[bytes, bytes] = (b"", b"")
        self._launching = asyncio.Lock()
        self._started = False

    async def start(self) -> None:
        """Raises Unavailable, naming what this host cannot enforce and what to do about it."""
        _raise_descriptor_limit()
        self._filters = seccomp.compile_filters()
        found = [images.host_image(), *(images.built_images(d) if (d := self._settings.images_dir) else ())]
        self._images = {image.name: image for image in found}
        name = f"{cgroups.PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
        self._hierarchies, self._missing = cgroups.locate(name)
        try:
            self._refuse_what_is_not_allowed()
            await self._launch()
        except BaseException:  # also when cancelled: nobody calls stop for what has not started
            cgroups.remove_base(self._hierarchies)
            raise
        self._started = True
        self._pool.start()

    async def _launch(self) -> None:
        stage = self._settings.state_dir / "stage"
        stage.mkdir(parents=True, exist_ok=True)
        plan = LauncherPlan(
            stage=str(stage),
            images=tuple(self._images.values()),
            hierarchies=self._hierarchies,
            first_id=self._settings.first_id,
            id_count=self._settings.id_count if os.geteuid() == 0 else 0,
        )
        await self._channel.start(plan, self._filters)

    async def _relaunch(self) -> None:
        """The launcher was killed, and the kernel has killed every sandbox of it; the next call gets a new one."""
        async with self._launching:
            if not self._started:
                raise LauncherDied("the backend is stopped")
            if not self._channel.alive:
                await self._channel.stop()
                cgroups.remove_sandboxes(self._hierarchies)
                await self._launch()

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
        for sandbox in [*self._open]:
            await sandbox.close()
        await self._channel.stop()
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

    async def open(self, spec: SandboxSpec) -> NativeSandbox:
        """Raises InvocationError(SANDBOX_UNAVAILABLE)."""
        image = self._images.get(spec.image)
        if image is None:
            raise _unavailable(f"there is no image {spec.image!r} here; there are: {', '.join(self.images())}")
        if spec.network != "none":
            raise _unavailable(f"the native backend has no network {spec.network!r}, only `none`")
        began = time.monotonic()
        sandbox = self._pool.take(spec) or await self._make(spec)
        setup_ms = (time.monotonic() - began) * 1000
        sandbox.adopt(spec.limits, self._rlimits(spec.limits), self._isolation(spec, image), setup_ms)
        return sandbox

    async def _make(self, spec: SandboxSpec) -> NativeSandbox:
        number = next(self._numbers)
        try:
            control, pidfd = await self._build(self._plan(number, spec))
        except (OSError, LauncherDied, Unavailable) as error:
            raise _unavailable(f"the sandbox could not be made: {error}") from error
        except asyncio.CancelledError:
            await asyncio.shield(self._channel.release(number))
            raise
        sandbox = NativeSandbox(
            number=number,
            control=control,
            pidfd=pidfd,
            counters=cgroups.Counters(self._hierarchies, f"sandbox-{number}"),
            release=self._release,
        )
        self._open.add(sandbox)
        try:
            await sandbox.parked()
        except BaseException:  # also when cancelled: nobody else knows of this sandbox yet
            await sandbox.close()
            raise
        return sandbox

    async def _build(self, plan: SandboxPlan) -> tuple[int, int]:
        """Tried once more where the launcher turns out to be gone: nothing of the call has run yet."""
        if self._channel.alive:
            with contextlib.suppress(LauncherDied):
                return await self._channel.build(plan)
        await self._relaunch()
        return await self._channel.build(plan)

    async def _release(self, sandbox: NativeSandbox) -> None:
        await self._channel.release(sandbox.number)
        self._open.discard(sandbox)
        self._pool.refill()

    def _plan(self, number: int, spec: SandboxSpec) -> SandboxPlan:
        limits = spec.limits
        return SandboxPlan(
            sandbox_id=number,
            image=spec.image,
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

    def _isolation(self, spec: SandboxSpec, image: ImagePlan) -> Isolation:
        return Isolation(
            backend=self.name,
            image=image.name,
            image_digest=image.digest,
            network=spec.network,
            limits=spec.limits,
            degraded=tuple(f"{name}: {DEGRADABLE[name][0]}" for name in sorted(self._missing)),
        )


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
