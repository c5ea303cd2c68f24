"""The journey of one invocation. The only module that knows the order of the stages; it does no I/O of its own."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from executor.admission.arguments import echo, parse
from executor.admission.deadline import within_deadline
from executor.admission.input_files import check_files
from executor.catalogue.catalogue import Catalogue
from executor.catalogue.template import Rendered, render
from executor.model.errors import InvocationCancelled, InvocationError, Unavailable
from executor.model.invocation import Invocation
from executor.model.limits import Limits
from executor.model.outcome import Outcome, Ran, State, Stream
from executor.model.run import Process, RefusedFile, SandboxSpec, StreamName
from executor.model.tool import Tool
from executor.result import outcomes
from executor.result.text import present
from executor.sandbox import session
from executor.sandbox.contract import Backend
from executor.sandbox.recorder import Observer, Outputs, Recorder
from executor.stages import Approval, Capacity, Idempotency, Internal, Ledger, Permission

LARGE_CHARACTERS = 32_768
"""Text beyond this is judged, or made fit to show, in a thread: the worst of a megabyte takes half a second."""


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
        await self._ledger.attempt(invocation)
        tool: Tool | None = None
        try:
            tool = self._catalogue.find(invocation.tool, invocation.version)
            call = await _admitted(invocation, tool)
            self._permission.check(invocation.principal, tool)
            if earlier := await self._idempotency.claim(invocation, tool, call.arguments):
                return replace(earlier, replayed=True)
            await self._approval.check(invocation, tool, call.arguments)
            async with self._capacity.slot(invocation.principal, tool, cancelled, invocation.deadline) as queue_ms:
                call = replace(call, limits=within_deadline(call.limits, invocation.deadline, time.monotonic()))
                await self._ledger.intend(invocation, tool)
                observer.started(tool.version)
                outcome = await self._run(call, observer, cancelled)
                outcome = replace(outcome, usage=outcomes.rounded(replace(outcome.usage, queue_ms=queue_ms)))
        except InvocationError as error:
            outcome = outcomes.failed(invocation, tool, error.detail, echo(invocation.arguments_json))
        except InvocationCancelled:
            outcome = outcomes.stopped(invocation, tool, State.CANCELLED)
        await self._ledger.conclude(invocation, outcome)
        return outcome

    async def _run(self, call: "_Call", observer: Observer, cancelled: asyncio.Event) -> Outcome:
        invocation, policy, rendered = call.invocation, call.tool.policy, call.rendered
        if rendered is None:
            return await self._internal.answer(invocation, call.tool, call.arguments, call.limits)
        recorder = Recorder(self._outputs, invocation.principal.tenant, call.limits.text_bytes, observer)
        try:
            ran = await session.run(
                self._backend,
                SandboxSpec(image=policy.image, limits=call.limits, network=policy.network),
                Process(
                    argv=rendered.argv,
                    environment=rendered.environment,
                    stdin=rendered.stdin,
                    files=(*rendered.files, *invocation.files),
                    wall_seconds=call.limits.wall_seconds,
                    on_output_excess=policy.on_output_excess,
                ),
                collect=invocation.collect,
                on_output=recorder.on_output,
                cancelled=cancelled,
            )
        except BaseException:  # whatever ends the run, its spools must not stay in the store
            await recorder.settle(keep=())
            raise
        return await self._kept(call, ran, recorder)

    async def _kept(self, call: "_Call", ran: Ran, recorder: Recorder) -> Outcome:
        """What ran has run: where its full output cannot be kept, the outcome says so and is told all the same."""
        invocation, text_bytes = call.invocation, call.limits.text_bytes
        work = (recorder, text_bytes, ran.report.output_dropped if ran.report else {})
        streams = await asyncio.to_thread(_presented, *work) if text_bytes > LARGE_CHARACTERS else _presented(*work)
        lost = await recorder.settle(keep=[name for name in StreamName if streams[name].ref])
        streams |= {name: replace(streams[name], ref=None) for name in lost}
        artifacts, refused = [], list(ran.collection.refused)
        for file in ran.collection.files:
            try:
                ref = await self._outputs.put(file.content, invocation.principal.tenant)
                artifacts.append(outcomes.artifact(file, ref))
            except Unavailable as error:
                refused.append(RefusedFile(path=file.path, reason=str(error)))
        outcome = outcomes.conclude(invocation, call.tool, call.limits, ran, streams)
        return replace(outcome, artifacts=tuple(artifacts), artifacts_refused=tuple(refused))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """An invocation that may run."""

    invocation: Invocation
    tool: Tool
    arguments: dict[str, Any]
    limits: Limits
    rendered: Rendered | None
    """None where the service answers itself."""


def _presented(recorder: Recorder, text_bytes: int, dropped: Mapping[StreamName, int]) -> dict[StreamName, Stream]:
    return {
        name: present(
            recorder.excerpt(name),
            text_bytes=text_bytes,
            ref=recorder.ref(name),
            dropped_bytes=dropped.get(name, 0),
        )
        for name in StreamName
    }


async def _admitted(invocation: Invocation, tool: Tool) -> _Call:
    """Raises InvocationError for whatever the caller or its model must mend."""
    if len(invocation.arguments_json) > LARGE_CHARACTERS:
        return await asyncio.to_thread(_judged, invocation, tool)
    return _judged(invocation, tool)


def _judged(invocation: Invocation, tool: Tool) -> _Call:
    arguments = parse(invocation.arguments_json, tool)
    check_files(invocation.files, invocation.collect, tool)
    return _Call(
        invocation=invocation,
        tool=tool,
        arguments=arguments,
        limits=tool.policy.limits.lowered_by(dict(invocation.limits)),
        rendered=render(tool.command, arguments, tool.parameters) if tool.command else None,
    )
