"""Wire to model and back, and the JSON form of an outcome. Shared by ingress and client; holds no decision but what is
malformed as a whole.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from executor.codec.walk import SURROGATE, parts, plain, read
from executor.model.errors import BadRequest
from executor.model.events import Accepted, Ended, Event, Heartbeat, Output, Started
from executor.model.invocation import LOCAL, InputFile, Invocation, Principal
from executor.model.limits import LIMIT_NAMES, Limits
from executor.model.outcome import Outcome
from executor.model.tool import Effect, Tool
from executor.v1 import executor_pb2 as pb

ID_CHARS = 256
"""Longest name, version or call id that is taken."""
MAX_FILES = 8192
"""Input files of one call; as many as a workspace has inodes by default."""
_TRACE_ID = re.compile(r"(?!0{32})[0-9a-f]{32}")
_EVENTS = {"accepted": Accepted, "started": Started, "output": Output, "heartbeat": Heartbeat}


class MalformedRequest(BadRequest):
    """Names the field, as `google.rpc.BadRequest` does."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field, self.problem = field, problem


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOffer:
    """A tool as a caller sees it. How it is carried out stays with the service."""

    name: str
    version: str
    digest: str
    description: str
    parameters: Mapping[str, Any]
    """JSON Schema 2020-12 of the arguments object."""
    effect: Effect
    examples: tuple[Mapping[str, Any], ...]
    image: str
    network: str
    limits: Limits
    unavailable: str | None = None
    """Why it cannot run on this host."""


def offer(tool: Tool, unavailable: str | None = None) -> ToolOffer:
    return ToolOffer(
        name=tool.name,
        version=tool.version,
        digest=tool.digest,
        description=tool.description,
        parameters=tool.parameters,
        effect=tool.effect,
        examples=tuple(example.arguments for example in tool.examples),
        image=tool.policy.image,
        network=tool.policy.network,
        limits=tool.policy.limits,
        unavailable=unavailable,
    )


def tool_to_wire(tool: ToolOffer) -> pb.Tool:
    return pb.Tool(
        **parts(tool, leave_out=("parameters", "examples")),
        parameters_json=_compact(tool.parameters),
        examples_json=map(_compact, tool.examples),
    )


def tool_from_wire(message: pb.Tool) -> ToolOffer:
    parsed = {
        "parameters": json.loads(message.parameters_json or "{}"),
        "examples": tuple(map(json.loads, message.examples_json)),
    }
    return read(ToolOffer, message, given=parsed)


def invocation_to_wire(invocation: Invocation) -> pb.Invocation:
    """Raises MalformedRequest for what the wire cannot carry."""
    form: dict[str, Any] = {
        name: _literal(name, value)
        for name in ("tool", "version", "arguments_json", "call_id", "trace_id")
        if (value := getattr(invocation, name)) is not None
    }
    message = pb.Invocation(**form)
    for file in invocation.files:
        message.files.add(path=_literal("files.path", file.path), content=file.content, executable=file.executable)
    if invocation.collect:
        message.collect.extend(_literal("collect", glob) for glob in invocation.collect)
    for name, value in invocation.limits.items():
        _set_limit(message.limits, name, value)
    return message


def invocation_from_wire(  # noqa: PLR0913 - what the message does not say
    message: pb.Invocation,
    *,
    invocation_id: str,
    principal: Principal = LOCAL,
    trace_id: str | None = None,
    deadline: float | None = None,
    arrived: float | None = None,
) -> Invocation:
    """`trace_id` stands in where the message has none. Raises MalformedRequest."""
    given: dict[str, str] = {n: getattr(message, n) for n in ("version", "call_id", "trace_id") if message.HasField(n)}
    for name, text in {"tool": message.tool, **given}.items():
        _check_id(name, text)
    if len(message.files) > MAX_FILES:
        raise MalformedRequest("invocation.files", f"are {len(message.files)}; at most {MAX_FILES} are taken")
    if "trace_id" in given and not _TRACE_ID.fullmatch(given["trace_id"].lower()):
        raise MalformedRequest("invocation.trace_id", "is not a W3C trace id: 32 hex digits that are not all zero")
    return Invocation(
        invocation_id=invocation_id,
        tool=message.tool,
        arguments_json=message.arguments_json,
        principal=principal,
        version=given.get("version"),
        call_id=given.get("call_id"),
        trace_id=given["trace_id"].lower() if "trace_id" in given else trace_id,
        files=tuple(InputFile(path=f.path, content=f.content, executable=f.executable) for f in message.files),
        collect=tuple(message.collect),
        limits={descriptor.name: value for descriptor, value in message.limits.ListFields()},
        deadline=deadline,
        arrived=arrived,
    )


def outcome_to_wire(outcome: Outcome) -> pb.Outcome:
    return pb.Outcome(**parts(outcome))


def outcome_from_wire(message: pb.Outcome) -> Outcome:
    """Raises Misconfigured for an enum value that this version does not know."""
    return read(Outcome, message)


def outcome_to_json(outcome: Outcome) -> dict[str, Any]:
    """The outcome as JSON has it: the wire's names, numbers as numbers, without what is absent or an empty list."""
    form: dict[str, Any] = plain(outcome)
    return form


def event_to_wire(event: Event) -> pb.ExecuteStreamResponse:
    if isinstance(event, Ended):
        return pb.ExecuteStreamResponse(sequence=event.sequence, outcome=outcome_to_wire(event.outcome))
    name = next(name for name, kind in _EVENTS.items() if isinstance(event, kind))
    form: dict[str, Any] = {name: parts(event, leave_out=("sequence",))}
    return pb.ExecuteStreamResponse(sequence=event.sequence, **form)


def event_from_wire(message: pb.ExecuteStreamResponse) -> Event | None:
    """None for a kind of event that this version does not know."""
    kind = message.WhichOneof("event")
    if kind is None:
        return None
    if kind == "outcome":
        return Ended(sequence=message.sequence, outcome=outcome_from_wire(message.outcome))
    event: Event = read(_EVENTS[kind], getattr(message, kind), given={"sequence": message.sequence})
    return event


def _literal(field: str, text: str) -> str:
    """What the caller chose is never changed on its way."""
    if not text.isascii() and (found := SURROGATE.search(text)):
        raise MalformedRequest(f"invocation.{field}", f"holds half a surrogate pair at character {found.start()}")
    return text


def _check_id(name: str, text: str) -> None:
    if not text:
        advice = "is missing" if name == "tool" else "is empty; leave it out instead"
        raise MalformedRequest(f"invocation.{name}", advice)
    if len(text) > ID_CHARS:
        raise MalformedRequest(f"invocation.{name}", f"is {len(text)} characters long; at most {ID_CHARS} are taken")
    if not text.isprintable():
        raise MalformedRequest(f"invocation.{name}", "holds characters that are not printable")


def _set_limit(message: pb.LimitOverrides, name: str, value: float) -> None:
    if name not in LIMIT_NAMES:
        raise MalformedRequest(
            "invocation.limits", f"there is no limit {name!r}; the limits are {', '.join(LIMIT_NAMES)}"
        )
    whole = isinstance(getattr(Limits(), name), int)
    if whole and not (float(value).is_integer() and abs(value) < 2**63):
        raise MalformedRequest(f"invocation.limits.{name}", f"{value!r} is not a whole number")
    setattr(message, name, int(value) if whole else value)


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), default=dict)
