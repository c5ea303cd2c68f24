import json
import math
import typing
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from hypothesis import given
from hypothesis import strategies as st

from executor.codec import (
    MAX_FILES,
    MalformedRequest,
    ToolOffer,
    event_from_wire,
    event_to_wire,
    invocation_from_wire,
    invocation_to_wire,
    offer,
    outcome_from_wire,
    outcome_to_json,
    outcome_to_wire,
    tool_from_wire,
    tool_to_wire,
)
from executor.model.errors import CLASS_OF, EffectState, ErrorClass, ErrorCode, ErrorDetail, Misconfigured
from executor.model.events import Accepted, Ended, Event, Heartbeat, Output, Started
from executor.model.invocation import InputFile, Invocation
from executor.model.limits import LIMIT_NAMES, Limits
from executor.model.outcome import Artifact, Isolation, Outcome, State, Stream
from executor.model.run import StreamName, Usage
from executor.model.tool import Command, Effect, Example, Policy, Tool
from executor.v1 import executor_pb2 as pb

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
NATURAL = st.integers(0, 2**63 - 1)
POSITIVE = st.floats(min_value=0, allow_nan=False, allow_infinity=False)
BY_TYPE = {str: TEXT, int: NATURAL, float: POSITIVE, bool: st.booleans()}


def values(kind: Any, name: str = "") -> st.SearchStrategy[Any]:
    """Anything that a model's field of this type can hold on the wire."""
    if name == "exit_code":
        return st.none() | st.integers(-(2**31), 2**31 - 1)
    if get_origin(kind) is tuple:
        return st.lists(values(get_args(kind)[0]), max_size=2).map(tuple)
    if type(None) in get_args(kind):
        return st.none() | values(get_args(kind)[0])
    if is_dataclass(kind):
        return st.builds(kind, **{field: values(hint, field) for field, hint in get_type_hints(kind).items()})
    if issubclass(kind, Enum):
        return st.sampled_from(kind)
    return BY_TYPE[kind]


OUTCOMES = values(Outcome)


def numbers_as_numbers(form: Any, descriptor: Descriptor) -> Any:
    """The JSON mapping of protobuf writes a 64-bit integer as a string."""

    def of(field: FieldDescriptor, value: Any) -> Any:
        if isinstance(value, list):
            return [of(field, item) for item in value]
        if field.message_type:
            return numbers_as_numbers(value, field.message_type)
        return int(value) if field.cpp_type == field.CPPTYPE_INT64 else value

    return {name: of(descriptor.fields_by_name[name], value) for name, value in form.items()}


def without_empty_lists(form: Any) -> Any:
    if isinstance(form, dict):
        return {name: without_empty_lists(value) for name, value in form.items() if value != []}
    return [without_empty_lists(item) for item in form] if isinstance(form, list) else form


@given(OUTCOMES)
def test_an_outcome_survives_the_wire(outcome: Outcome) -> None:
    message = pb.Outcome.FromString(outcome_to_wire(outcome).SerializeToString())
    assert outcome_from_wire(message) == outcome


@given(OUTCOMES)
def test_the_json_form_is_that_of_protobuf_with_numbers_as_numbers(outcome: Outcome) -> None:
    message = outcome_to_wire(outcome)
    theirs = json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    ours = outcome_to_json(outcome)
    assert ours == without_empty_lists(numbers_as_numbers(theirs, message.DESCRIPTOR))
    assert json.loads(json.dumps(ours, allow_nan=False)) == ours


def test_the_json_form_leaves_out_what_does_not_apply() -> None:
    outcome = Outcome(invocation_id="inv_1", state=State.COMPLETED, tool="echo", exit_code=0)
    stream = {"text": "", "total_bytes": 0, "truncated": False, "lossy": False}
    assert outcome_to_json(outcome) == {
        "invocation_id": "inv_1",
        "state": "COMPLETED",
        "tool": "echo",
        "exit_code": 0,
        "stdout": stream,
        "stderr": stream,
        "usage": {"queue_ms": 0.0, "setup_ms": 0.0, "wall_ms": 0.0, "teardown_ms": 0.0},
        "replayed": False,
    }


def test_the_json_form_of_an_error_has_its_class() -> None:
    error = ErrorDetail(code=ErrorCode.TIMEOUT, message="late", effect=EffectState.POSSIBLE)
    outcome = Outcome(invocation_id="inv_1", state=State.FAILED, tool="echo", error=error)
    assert outcome_to_json(outcome)["error"] == {
        "class": "TRANSIENT",
        "code": "TIMEOUT",
        "message": "late",
        "retryable": False,
        "effect": "POSSIBLE",
    }


PAIRS = [
    (Outcome, pb.Outcome, set(), set()),
    (Stream, pb.Stream, set(), set()),
    (Artifact, pb.Artifact, set(), set()),
    (ErrorDetail, pb.Error, set(), {"class"}),
    (Usage, pb.Usage, set(), set()),
    (Isolation, pb.Isolation, set(), set()),
    (Limits, pb.Limits, set(), set()),
    (Limits, pb.LimitOverrides, set(), set()),
    (ToolOffer, pb.Tool, {"parameters", "examples"}, {"parameters_json", "examples_json"}),
    (InputFile, pb.InputFile, {"internal"}, set()),
    (Invocation, pb.Invocation, {"invocation_id", "principal", "deadline", "arrived"}, set()),
    (Accepted, pb.Accepted, {"sequence"}, set()),
    (Started, pb.Started, {"sequence"}, set()),
    (Output, pb.OutputChunk, {"sequence"}, set()),
    (Heartbeat, pb.Heartbeat, {"sequence"}, set()),
]


@pytest.mark.parametrize(("model", "message", "only_model", "only_wire"), PAIRS)
def test_model_and_wire_have_the_same_fields(
    model: type, message: Any, only_model: set[str], only_wire: set[str]
) -> None:
    ours = {field.name for field in fields(model)}
    theirs = {field.name for field in message.DESCRIPTOR.fields}
    assert (ours - theirs, theirs - ours) == (only_model, only_wire)


@pytest.mark.parametrize(
    ("model", "wire"),
    [
        (State, pb.Outcome.State),
        (ErrorClass, pb.Error.Class),
        (ErrorCode, pb.Error.Code),
        (EffectState, pb.Error.Effect),
        (Effect, pb.Tool.Effect),
        (StreamName, pb.OutputChunk.Source),
    ],
)
def test_model_and_wire_have_the_same_values(model: type[Enum], wire: Any) -> None:
    assert {member.name for member in model} == {name for name in wire.keys() if not name.endswith("_UNSPECIFIED")}  # noqa: SIM118


def test_every_code_has_a_class() -> None:
    assert set(CLASS_OF) == set(ErrorCode)


def test_an_enum_value_of_a_later_version_is_told_by_name() -> None:
    message = pb.Outcome(invocation_id="inv_1", tool="echo")
    message.ParseFromString(message.SerializeToString() + bytes([7 << 3, 99]))
    with pytest.raises(Misconfigured, match=r"Outcome\.state = 99"):
        outcome_from_wire(message)


def test_half_a_surrogate_pair_is_replaced_where_it_is_only_shown() -> None:
    outcome = Outcome(invocation_id="inv_1", state=State.FAILED, tool="a\udc80b")
    assert outcome_to_wire(outcome).tool == outcome_to_json(outcome)["tool"] == "a\ufffdb"


INVOCATIONS = st.builds(
    Invocation,
    invocation_id=st.just("inv_1"),
    tool=st.from_regex(r"[a-z]{1,9}", fullmatch=True),
    arguments_json=TEXT,
    version=st.none() | st.just("1.2.3"),
    call_id=st.none() | st.from_regex(r"[!-~]{1,256}", fullmatch=True),
    trace_id=st.just("ab" * 16),
    files=st.lists(st.builds(InputFile, path=TEXT, content=st.binary(), executable=st.booleans())).map(tuple),
    collect=st.lists(TEXT).map(tuple),
    limits=st.dictionaries(st.sampled_from(LIMIT_NAMES), st.integers(-5, 2**40)),
)


@given(INVOCATIONS)
def test_an_invocation_survives_the_wire(invocation: Invocation) -> None:
    message = pb.Invocation.FromString(invocation_to_wire(invocation).SerializeToString())
    assert invocation_from_wire(message, invocation_id="inv_1") == invocation


def test_the_trace_id_of_the_metadata_stands_in_and_that_of_the_message_wins() -> None:
    bare, own = pb.Invocation(tool="echo"), pb.Invocation(tool="echo", trace_id="AB" * 16)
    assert invocation_from_wire(bare, invocation_id="inv_1", trace_id="c" * 32).trace_id == "c" * 32
    assert invocation_from_wire(own, invocation_id="inv_1", trace_id="c" * 32).trace_id == "ab" * 16


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (pb.Invocation(), "invocation.tool"),
        (pb.Invocation(tool="a" * 257), "invocation.tool"),
        (pb.Invocation(tool="a\x1b[31m"), "invocation.tool"),
        (pb.Invocation(tool="a", version=""), "invocation.version"),
        (pb.Invocation(tool="a", call_id="a\nb"), "invocation.call_id"),
        (pb.Invocation(tool="a", trace_id="g" * 32), "invocation.trace_id"),
        (pb.Invocation(tool="a", trace_id="0" * 32), "invocation.trace_id"),
        (pb.Invocation(tool="a", files=[pb.InputFile()] * (MAX_FILES + 1)), "invocation.files"),
    ],
)
def test_what_is_malformed_as_a_whole_is_refused_by_field(message: pb.Invocation, field: str) -> None:
    with pytest.raises(MalformedRequest) as caught:
        invocation_from_wire(message, invocation_id="inv_1")
    assert caught.value.field == field


def test_a_limit_that_is_not_a_number_reaches_admission_as_it_is() -> None:
    message = pb.Invocation(tool="a", limits=pb.LimitOverrides(wall_seconds=math.nan, processes=0))
    limits = invocation_from_wire(message, invocation_id="inv_1").limits
    assert math.isnan(limits["wall_seconds"])
    assert limits["processes"] == 0


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"arguments_json": '"\ud800"'}, "invocation.arguments_json"),
        ({"files": (InputFile(path="\udcff", content=b""),)}, "invocation.files.path"),
        ({"collect": ("\udcff",)}, "invocation.collect"),
        ({"limits": {"memory": 1}}, "invocation.limits"),
        ({"limits": {"processes": 1.5}}, "invocation.limits.processes"),
        ({"limits": {"processes": math.nan}}, "invocation.limits.processes"),
        ({"limits": {"memory_bytes": 2**64}}, "invocation.limits.memory_bytes"),
    ],
)
def test_what_the_wire_cannot_carry_is_refused_and_never_changed(changes: dict[str, Any], field: str) -> None:
    invocation = Invocation(**{"invocation_id": "", "tool": "a", "arguments_json": "{}", **changes})
    with pytest.raises(MalformedRequest) as caught:
        invocation_to_wire(invocation)
    assert caught.value.field == field


def test_an_offer_survives_the_wire() -> None:
    tool = Tool(
        name="echo",
        version="1.0.0",
        description="Says it again.",
        parameters={"type": "object", "properties": {"text": {"type": "string"}}},
        effect=Effect.DESTRUCTIVE,
        policy=Policy(image="host", limits=Limits(processes=7)),
        command=Command(argv=("echo", "{{text}}")),
        examples=(Example(arguments={"text": "ä"}),),
        digest="sha256:00",
    )
    for one in (offer(tool), offer(tool, "no image here")):
        message = pb.Tool.FromString(tool_to_wire(one).SerializeToString())
        assert tool_from_wire(message) == one


@given(values(Accepted) | values(Started) | values(Heartbeat) | values(Ended))
def test_an_event_survives_the_wire(event: Event) -> None:
    assert event_from_wire(pb.ExecuteStreamResponse.FromString(event_to_wire(event).SerializeToString())) == event


def test_output_survives_the_wire_byte_by_byte() -> None:
    event = Output(sequence=3, source=StreamName.STDERR, offset=2**40, data=bytes(range(256)), skipped_bytes=5)
    assert event_from_wire(event_to_wire(event)) == event


def test_an_event_of_a_later_version_is_passed_over() -> None:
    assert event_from_wire(pb.ExecuteStreamResponse(sequence=1)) is None


def test_there_is_a_message_for_every_event() -> None:
    kinds = {field.message_type.name for field in pb.ExecuteStreamResponse.DESCRIPTOR.oneofs[0].fields}
    assert len(typing.get_args(Event)) == len(kinds)
