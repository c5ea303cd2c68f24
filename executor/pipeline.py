"""The journey of one invocation. The only module that knows the order of the stages; it does no I/O of its own."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from executor.admission.arguments import echo, parse
from executor.admission.deadline import within_deadline
from executor.admission.input_files import check_files
from executor.catalogue.catalogue import Catalogue
from executor.catalogue.template import Rendered, render
from executor.model.errors import ErrorClass, ErrorDetail, InvocationCancelled, InvocationError
from executor.model.invocation import Invocation
from executor.model.limits import Limits
from executor.model.outcome import Artifact, Outcome, Ran, State, Stream
from executor.model.run import CollectedFile, Process, RefusedFile, SandboxSpec, StreamName
from executor.model.tool import Tool
from executor.result import outcomes
from executor.result.text import present
from executor.sandbox import session
from executor.sandbox.contract import Backend
from executor.sandbox.recorder import Observer, Outputs, Recorder
from executor.stages import Approval, Capacity, Idempotency, Internal, Ledger, Permission

LARGE_CHARACTERS = 32_768
"""Text beyond this is judged, or made fit to show, in a thread: the worst of a megabyte takes half a second."""
MANY_FILES = 256
"""More input files than these are judged in a thread too."""
SILENCE = Stream()
"""Of a stream on which nothing was written."""


class Pipeline:
    """Stateless but for its stages; one `execute` per invocation, any number at a time."""

    def __init__(  # noqa: PLR0913 - the stages of the journey
        self,
        *,
        catalogue: Catalogue,
        permission: Permission,
        idempotency: Idempotency,
        approval: Approval,
        capacity: Capacity,
        ledger: Ledger,
        backend: Backend,
        outputs: Outputs,
        internal: Internal,
    ) -> None:
        self._catalogue, self._permission, self._idempotency = catalogue, permission, idempotency
        self._approval, self._capacity, self._ledger = approval, capacity, ledger
        self._backend, self._outputs, self._internal = backend, outputs, internal

    async def execute(self, invocation: Invocation, observer: Observer, cancelled: asyncio.Event) -> Outcome:
        """The outcome, durable in the ledger. Raises ServiceError only; what happened to the tool is in the outcome.

        Setting `cancelled` ends the call, with its process tree, and gives an outcome with state CANCELLED. The task
        itself must not be cancelled.
        """
        arrived = time.monotonic() if invocation.arrived is None else invocation.arrived
        await self._ledger.attempt(invocation)
        tool: Tool | None = None
        try:
            tool = self._catalogue.find(invocation.tool, invocation.version)
            call = await _admitted(invocation, tool, arrived)
            self._permission.check(invocation.principal, tool)
            if earlier := await self._idempotency.claim(invocation, tool, call.arguments):
                return replace(earlier, replayed=True)
            await self._approval.check(invocation, tool, call.arguments)
            async with self._capacity.slot(invocation.principal, tool, cancelled, invocation.deadline) as queue_ms:
                limits = within_deadline(call.limits, invocation.deadline, time.monotonic())
                await self._ledger.intend(invocation, tool)
                observer.started(tool.version)
                outcome = await self._run(call, limits, queue_ms, observer, cancelled)
        except InvocationError as error:
            echoed = await _echoed(invocation, error.detail)
            usage = outcomes.unspent(arrived=arrived, now=time.monotonic())
            outcome = outcomes.failed(invocation, tool, error.detail, usage, echoed)
        except InvocationCancelled:
            usage = outcomes.unspent(arrived=arrived, now=time.monotonic())
            outcome = outcomes.stopped(invocation, tool, State.CANCELLED, usage)
        await self._ledger.conclude(invocation, outcome)
        return outcome

    async def _run(
        self, call: "_Call", limits: Limits, queue_ms: float, observer: Observer, cancelled: asyncio.Event
    ) -> Outcome:
        invocation, policy, rendered = call.invocation, call.tool.policy, call.rendered
        if rendered is None:
            outcome = await self._internal.answer(invocation, call.tool, call.arguments, limits)
            usage = outcomes.unspent(
                arrived=call.arrived, now=time.monotonic(), queue_ms=queue_ms, wall_ms=outcome.usage.wall_ms
            )
            return replace(outcome, usage=usage)
        recorder = Recorder(self._outputs, invocation.principal.tenant, limits.text_bytes, observer)
        try:
            ran = await session.run(
                self._backend,
                SandboxSpec(image=policy.image, limits=limits, network=policy.network),
                Process(
                    argv=rendered.argv,
                    environment=rendered.environment,
                    stdin=rendered.stdin,
                    files=(*rendered.files, *invocation.files),
                    wall_seconds=limits.wall_seconds,
                    on_output_excess=policy.on_output_excess,
                ),
                collect=invocation.collect,
                on_output=recorder.on_output,
                cancelled=cancelled,
            )
        except BaseException:  # whatever ends the run, its spools must not stay in the store
            await recorder.settle(keep=())
            raise
        return await self._kept(call, limits, queue_ms, ran, recorder)

    async def _kept(self, call: "_Call", limits: Limits, queue_ms: float, ran: Ran, recorder: Recorder) -> Outcome:
        """What ran has run: where its full output cannot be kept, the outcome says so and is told all the same."""
        work = (recorder, limits.text_bytes, ran.report.output_dropped if ran.report else {})
        large = min(limits.text_bytes, recorder.total_bytes) > LARGE_CHARACTERS
        streams = await asyncio.to_thread(_presented, *work) if large else _presented(*work)
        lost = await recorder.settle(keep=[name for name in StreamName if streams[name].ref])
        for name in lost:
            streams[name] = replace(streams[name], ref=None)
        artifacts, refused = await self._stored(ran.collection.files, call.invocation.principal.tenant)
        return outcomes.conclude(
            call.invocation,
            call.tool,
            limits,
            ran,
            streams=streams,
            artifacts=artifacts,
            refused=(*ran.collection.refused, *refused),
            usage=outcomes.spent(ran, arrived=call.arrived, queue_ms=queue_ms, now=time.monotonic()),
        )

    async def _stored(
        self, files: Sequence[CollectedFile], tenant: str
    ) -> tuple[tuple[Artifact, ...], tuple[RefusedFile, ...]]:
        """Behind refs, and those for which there was no room."""
        if not files:
            return (), ()
        stored = await self._outputs.put_all([file.content for file in files], tenant)
        pairs = list(zip(files, stored, strict=True))
        kept = [(file, ref) for file, ref in pairs if isinstance(ref, str)]
        refused = tuple(RefusedFile(path=file.path, reason=str(ref)) for file, ref in pairs if not isinstance(ref, str))
        return await asyncio.to_thread(_described, kept), refused


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """An invocation that may run."""

    invocation: Invocation
    arrived: float
    """On `time.monotonic`, in seconds."""
    tool: Tool
    arguments: dict[str, Any]
    limits: Limits
    """Before the deadline of the caller lowers them."""
    rendered: Rendered | None
    """None where the service answers itself."""


def _presented(recorder: Recorder, text_bytes: int, dropped: Mapping[StreamName, int]) -> dict[StreamName, Stream]:
    streams: dict[StreamName, Stream] = {}
    for name in StreamName:
        excerpt, dropped_bytes = recorder.excerpt(name), dropped.get(name, 0)
        if excerpt.total_bytes or dropped_bytes:
            ref = recorder.ref(name)
            streams[name] = present(excerpt, text_bytes=text_bytes, ref=ref, dropped_bytes=dropped_bytes)
        else:
            streams[name] = SILENCE
    return streams


def _described(files: Sequence[tuple[CollectedFile, str]]) -> tuple[Artifact, ...]:
    return tuple(outcomes.artifact(file, ref) for file, ref in files)


async def _admitted(invocation: Invocation, tool: Tool, arrived: float) -> _Call:
    """Raises InvocationError for whatever the caller or its model must mend."""
    if len(invocation.arguments_json) > LARGE_CHARACTERS or len(invocation.files) > MANY_FILES:
        return await asyncio.to_thread(_judged, invocation, tool, arrived)
    return _judged(invocation, tool, arrived)


async def _echoed(invocation: Invocation, error: ErrorDetail) -> str | None:
    """The arguments as received, where the model is to mend them."""
    if error.error_class is not ErrorClass.INVALID_ARGUMENT:
        return None
    if len(invocation.arguments_json) > LARGE_CHARACTERS:
        return await asyncio.to_thread(echo, invocation.arguments_json)
    return echo(invocation.arguments_json)


def _judged(invocation: Invocation, tool: Tool, arrived: float) -> _Call:
    arguments = parse(invocation.arguments_json, tool)
    check_files(invocation.files, invocation.collect, tool)
    limits = tool.policy.limits
    return _Call(
        invocation=invocation,
        arrived=arrived,
        tool=tool,
        arguments=arguments,
        limits=limits.lowered_by(dict(invocation.limits)) if invocation.limits else limits,
        rendered=render(tool.command, arguments, tool.parameters) if tool.command else None,
    )
