"""The composition root: settings to objects, each start with its stop. The only place that knows concrete classes.

The backend starts first: its launcher is forked from this process, and gRPC, once it runs, forbids a fork. So nothing
here imports gRPC at its top.
"""

import asyncio
import gc
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from executor import codec
from executor.admission.approval import NoApprovers
from executor.admission.capacity import Slots
from executor.admission.idempotency import NoReplay
from executor.admission.permission import DenyList
from executor.catalogue import catalogue as catalogues
from executor.catalogue.catalogue import Catalogue
from executor.catalogue.diagnostic import Diagnostic
from executor.codec import ToolOffer
from executor.internal import ReadOutput
from executor.model.address import default_address
from executor.model.errors import Misconfigured, Unavailable
from executor.model.run import SandboxSpec
from executor.model.tool import Tool
from executor.pipeline import Pipeline
from executor.sandbox.contract import Backend
from executor.sandbox.native.backend import DEGRADABLE, NativeBackend, NativeSettings
from executor.sandbox.native.pool import PoolSettings
from executor.schema.nearest import did_you_mean, listed
from executor.settings import Settings
from executor.stores.files import FileOutputStore
from executor.stores.memory import MemoryLedger

if TYPE_CHECKING:
    from structlog.stdlib import BoundLogger

    from executor.ingress.server import Server

MakeBackend = Callable[[Settings], Backend]


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What runs while `open_service` is open."""

    settings: Settings
    catalogue: Catalogue
    warnings: tuple[Diagnostic, ...]
    """Of the catalogue."""
    offers: "Offers"
    outputs: FileOutputStore
    ledger: MemoryLedger
    pipeline: Pipeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Offers:
    """The catalogue, and what of it can run on this host."""

    catalogue: Catalogue
    backend: Backend
    trouble: str | None = None
    """Why no sandbox can be made at all."""

    def unavailable(self, tool: Tool) -> str | None:
        """Why the tool cannot run on this host; None where it can."""
        if tool.command is None:
            return None
        if self.trouble:
            return self.trouble
        image, program = tool.policy.image, tool.command.argv[0]
        if image not in self.backend.images():
            return f"there is no image {image!r} here; there are: {listed(self.backend.images())}"
        if not program.startswith("{{") and not self.backend.has_program(image, program):
            return f"the image {image!r} has no program {program!r}"
        return None

    def offer(self, tool: Tool) -> ToolOffer:
        return codec.offer(tool, self.unavailable(tool))


def native_settings(settings: Settings) -> NativeSettings:
    return NativeSettings(
        state_dir=settings.state_dir,
        images_dir=settings.images_dir,
        allow_degraded=frozenset(settings.allow_degraded),
        first_id=settings.sandbox_uid_base,
        id_count=settings.sandbox_uid_count,
        pool=PoolSettings(
            least=settings.pool_least,
            most=settings.pool_size,
            refill_per_second=settings.pool_refill_per_second,
        ),
        launchers=settings.launchers,
        templates=settings.templates,
    )


def native_backend(settings: Settings) -> Backend:
    """Raises Misconfigured where `allow_degraded` names what nobody can do without."""
    for name in settings.allow_degraded:
        if name not in DEGRADABLE:
            raise Misconfigured(f"allow_degraded names {name!r}; what can be done without is {listed(DEGRADABLE)}")
    return NativeBackend(native_settings(settings))


def load_catalogue(settings: Settings) -> tuple[Catalogue, tuple[Diagnostic, ...]]:
    """The catalogue and its warnings. Raises Misconfigured."""
    catalogue, warnings = catalogues.load(settings.catalogue, settings.default_image)
    for name in settings.deny_tools:
        if not catalogue.versions(name):
            names = [tool.name for tool in catalogue.tools()]
            guess = did_you_mean(name, names) or f"there are: {listed(names)}"
            raise Misconfigured(f"deny_tools names {name!r}, and there is no such tool; {guess}")
    return catalogue, warnings


@asynccontextmanager
async def open_outputs(settings: Settings) -> AsyncIterator[FileOutputStore]:
    """The output store alone, which needs no sandbox. Raises Unavailable where its directory cannot be used."""
    prepare_state_dir(settings.state_dir)
    outputs = FileOutputStore(
        settings.outputs_path, ttl_seconds=settings.output_ttl_seconds, quota_bytes=settings.output_quota_bytes
    )
    try:
        await outputs.start()
        yield outputs
    finally:
        await outputs.stop()


def prepare_state_dir(path: Path) -> None:
    """It exists, is ours alone, and can be written. Raises Unavailable."""
    try:
        for parent in reversed(list(takewhile(lambda parent: not parent.exists(), path.parents))):
            parent.mkdir(exist_ok=True)  # pathlib's own `parents` goes one call deeper for each
        path.mkdir(mode=0o700, exist_ok=True)
        writable = os.access(path, os.W_OK | os.X_OK)
    except OSError as error:
        raise Unavailable(f"the state directory {path} cannot be made: {error.strerror}; {_ELSEWHERE}") from None
    if not writable:
        raise Unavailable(f"the state directory {path} cannot be written by this user; {_ELSEWHERE}")


_ELSEWHERE = "choose another with --state-dir or EXECUTOR_STATE_DIR"


@asynccontextmanager
async def open_service(settings: Settings, make_backend: MakeBackend = native_backend) -> AsyncIterator[Service]:
    """Everything but the network. Raises ServiceError."""
    catalogue, warnings = load_catalogue(settings)
    prepare_state_dir(settings.state_dir)
    backend = make_backend(settings)
    async with AsyncExitStack() as stack:
        await backend.start()
        stack.push_async_callback(backend.stop)
        backend.expect(_expected(catalogue))
        outputs = await stack.enter_async_context(open_outputs(settings))
        ledger = MemoryLedger()
        yield Service(
            settings=settings,
            catalogue=catalogue,
            warnings=warnings,
            offers=Offers(catalogue=catalogue, backend=backend),
            outputs=outputs,
            ledger=ledger,
            pipeline=Pipeline(
                catalogue=catalogue,
                permission=DenyList(settings.deny_tools),
                idempotency=NoReplay(),
                approval=NoApprovers(allow_destructive=settings.allow_destructive),
                capacity=Slots(
                    slots=settings.slots,
                    queue_length=settings.queue_length,
                    queue_timeout_seconds=settings.queue_timeout_seconds,
                ),
                ledger=ledger,
                backend=backend,
                outputs=outputs,
                internal=ReadOutput(outputs),
            ),
        )


def _expected(catalogue: Catalogue) -> Iterator[tuple[SandboxSpec, Sequence[str]]]:
    """What the tools ask for where the caller sets no limit."""
    for tool in catalogue.tools():
        if tool.command:
            policy = tool.policy
            yield SandboxSpec(image=policy.image, limits=policy.limits, network=policy.network), tool.command.argv


def for_one_call(settings: Settings) -> Settings:
    """Nothing is made ahead, because nothing comes after."""
    return settings.model_copy(update={"pool_size": 0, "templates": False, "launchers": 1})


@asynccontextmanager
async def open_offers(settings: Settings, make_backend: MakeBackend = native_backend) -> AsyncIterator[Offers]:
    """For those who only look. Where no sandbox can be made, the offers say so. Raises Misconfigured."""
    catalogue, _ = load_catalogue(settings)
    backend = make_backend(for_one_call(settings))
    try:
        prepare_state_dir(settings.state_dir)
        await backend.start()
    except Unavailable as error:
        yield Offers(catalogue=catalogue, backend=backend, trouble=str(error))
        return
    try:
        yield Offers(catalogue=catalogue, backend=backend)
    finally:
        await backend.stop()


@asynccontextmanager
async def listening(service: Service) -> AsyncIterator["Server"]:
    """The gRPC server on top of an open service. Raises Unavailable, Misconfigured."""
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"  # read when gRPC is loaded; nothing forks from here on
    from executor.ingress.server import Server  # noqa: PLC0415 - see above
    from executor.telemetry.logs import logger  # noqa: PLC0415 - loads what a call in process does without

    settings = service.settings
    server = Server(
        pipeline=service.pipeline,
        catalogue=service.catalogue,
        outputs=service.outputs,
        addresses=settings.listen or (default_address(),),
        unavailable=service.offers.unavailable,
        heartbeat_seconds=settings.heartbeat_seconds,
    )
    async with server:
        gc.collect()
        gc.freeze()  # what stays for good: to look through it again and again took 14 ms each time
        sweeping = asyncio.create_task(_sweep(service.outputs, settings.output_ttl_seconds, logger(__name__)))
        try:
            yield server
        finally:
            sweeping.cancel()
            await asyncio.wait((sweeping,))


async def _sweep(outputs: FileOutputStore, ttl_seconds: float, log: "BoundLogger") -> None:
    """What is expired is unreadable at once; this gives its room back."""
    while True:
        await asyncio.sleep(min(60.0, ttl_seconds))
        try:
            await outputs.sweep()
        except Unavailable as error:
            log.warning("expired outputs were not removed", reason=str(error))
