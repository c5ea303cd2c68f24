"""`executor run`: one call, here or at a server."""

import asyncio
import math
import os
import re
import time
import uuid
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from executor import codec
from executor.cli import console
from executor.cli.arguments import Given, Stdin, given, input_files, limit_overrides, utf8
from executor.cli.exits import Exit, Misuse
from executor.cli.interrupts import interrupts
from executor.cli.render import Line, succeeded, summary
from executor.cli.save import save
from executor.cli.target import Target
from executor.model.invocation import Invocation
from executor.model.outcome import Outcome

_TRACE_ID = re.compile(r"(?!0{32})[0-9a-f]{32}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The words of the command line."""

    tool: str
    version: str | None = None
    arguments: tuple[str, ...] = ()
    args: str | None = None
    args_file: str | None = None
    files: tuple[str, ...] = ()
    collect: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    timeout_seconds: float | None = None
    call_id: str | None = None
    trace_id: str | None = None
    save: Path | None = None
    as_json: bool = False


def prepare(call: Call) -> tuple[Invocation, Given]:
    """Everything but the arguments' types. Reads files and standard input, so it comes before the event loop, where
    Ctrl-C could not interrupt it. Raises Misuse.
    """
    stdin = Stdin()
    invocation = Invocation(
        invocation_id=f"inv_{uuid.uuid4().hex}",
        tool=utf8("TOOL", os.fsencode(call.tool)),
        version=call.version,
        arguments_json="",
        call_id=call.call_id and utf8("--call-id", os.fsencode(call.call_id)),
        trace_id=_trace_id(call.trace_id),
        files=input_files(call.files, stdin),
        collect=tuple(utf8("--collect", os.fsencode(glob)) for glob in call.collect),
        limits=limit_overrides(call.limits),
    )
    if call.timeout_seconds is not None and not 0 < call.timeout_seconds < math.inf:
        raise Misuse(f"--timeout {call.timeout_seconds:g}: give a positive number of seconds")
    return invocation, given(call.arguments, call.args, call.args_file, stdin)


async def run(
    call: Call, prepared: tuple[Invocation, Given], open_target: Callable[[], AbstractAsyncContextManager[Target]]
) -> Exit:
    invocation, arguments = prepared
    cancelled = asyncio.Event()
    with interrupts(cancelled.set):
        async with open_target() as target:
            schema = await target.parameters(call.tool, call.version) if arguments.texts else {}
            invocation = replace(
                invocation, arguments_json=arguments.as_json(schema), deadline=_deadline(call.timeout_seconds)
            )
            outcome = await target.execute(invocation, cancelled)
            _show(outcome, as_json=call.as_json)
            if call.save is not None:
                paths = await save(outcome.artifacts, call.save, target.read)
                console.tell(Line("saved", str(path)) for path in paths)
    return Exit.OK if succeeded(outcome) else Exit.NOT_OK


def _deadline(timeout_seconds: float | None) -> float | None:
    return None if timeout_seconds is None else time.monotonic() + timeout_seconds


def _trace_id(trace_id: str | None) -> str | None:
    if trace_id is not None and not _TRACE_ID.fullmatch(trace_id.lower()):
        raise Misuse("--trace-id: not a W3C trace id: 32 hex digits that are not all zero")
    return trace_id and trace_id.lower()


def _show(outcome: Outcome, *, as_json: bool) -> None:
    if as_json:
        console.out_json(codec.outcome_to_json(outcome))
        return
    console.out(outcome.stdout.text)
    console.note(outcome.stderr.text)
    console.tell(summary(outcome))
