"""The journey of one invocation. The only module that knows the order of the stages; it does no I/O of its own."""

import asyncio
import time
from dataclasses import replace

from executor.admission.arguments import check_files, parse
from executor.catalogue.catalogue import Catalogue
from executor.catalogue.template import Rendered, render
from executor.model.errors import ErrorCode, ErrorDetail, InvocationCancelled, InvocationError
from executor.model.invocation import Invocation
from executor.model.limits import Limits
from executor.model.outcome import Outcome, State
from executor.model.run import Process, SandboxSpec, StreamName
from executor.model.tool import Tool
from executor.result import outcomes
from executor.result.text import present
from executor.sandbox import session
from executor.sandbox.contract import Backend
from executor.sandbox.recorder import Observer, Outputs, Recorder
from executor.stages import Approval, Capacity, Idempotency, Internal, Ledger, Permission

ANSWER_SECONDS = 0.2
"""Kept back of the caller's deadline, or a tenth of it, so that the outcome still reaches it."""


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
            arguments = parse(invocation.arguments_json, tool)
            check_files(invocation.files, invocation.collect, tool)
            limits = tool.policy.limits.lowered_by(dict(invocation.limits))
            rendered = render(tool, arguments)
            self._permission.check(invocation.principal, tool)
            if earlier := await self._idempotency.claim(invocation, tool, arguments):
                return replace(earlier, replayed=True)
            await self._approval.check(invocation, tool, arguments)
            async with self._capacity.slot(invocation.principal, tool, cancelled) as queue_ms:
                limits = _within_deadline(limits, invocation.deadline)
                await self._ledger.intend(invocation, tool)
                observer.started(tool.version)
                if tool.internal:
                    outcome = await self._internal.answer(invocation, tool, arguments, limits)
                else:
                    outcome = await self._run(invocation, tool, rendered, limits, observer, cancelled)
                outcome = replace(outcome, usage=replace(outcome.usage, queue_ms=queue_ms))
        except InvocationError as error:
            outcome = outcomes.failed(invocation, tool, error)
        except InvocationCancelled:
            outcome = outcomes.stopped(invocation, tool, State.CANCELLED)
        await self._ledger.conclude(invocation, outcome)
        return outcome

    async def _run(  # noqa: PLR0913 - what admission decided
        self,
        invocation: Invocation,
        tool: Tool,
        rendered: Rendered,
        limits: Limits,
        observer: Observer,
        cancelled: asyncio.Event,
    ) -> Outcome:
        recorder = Recorder(self._outputs, invocation.principal.tenant, limits.text_bytes, observer)
        ran = await session.run(
            self._backend,
            SandboxSpec(image=tool.policy.image, limits=limits, network=tool.policy.network),
            Process(
                argv=rendered.argv,
                environment=rendered.environment,
                stdin=rendered.stdin,
                files=(*rendered.files, *invocation.files),
                wall_seconds=limits.wall_seconds,
                on_output_excess=tool.policy.on_output_excess,
            ),
            collect=invocation.collect,
            on_output=recorder.on_output,
            cancelled=cancelled,
        )
        streams = {
            name: present(recorder.excerpt(name), text_bytes=limits.text_bytes, ref=recorder.ref(name))
            for name in StreamName
        }
        await recorder.settle(keep=[name for name in StreamName if streams[name].ref])
        refs = [await self._outputs.put(f.content, invocation.principal.tenant) for f in ran.collection.files]
        return outcomes.conclude(invocation, tool, limits, ran, streams, refs)


def _within_deadline(limits: Limits, deadline: float | None) -> Limits:
    """Raises InvocationError(TIMEOUT) where the time is up before anything has started."""
    if deadline is None:
        return limits
    left = deadline - time.monotonic()
    left -= min(ANSWER_SECONDS, left / 10)
    if left < 0.005:  # noqa: PLR2004 - less than it takes to make a sandbox
        raise InvocationError(
            ErrorDetail(
                code=ErrorCode.TIMEOUT,
                message="The caller's deadline had passed before the tool could start; nothing ran.",
                retryable=True,
                suggestion="Call again with a later deadline.",
            )
        )
    return limits.lowered_by({"wall_seconds": left})
