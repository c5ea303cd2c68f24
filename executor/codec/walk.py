"""One walk over a dataclass and the message that has the same field names and enum values.

Nothing is listed twice, so nothing can be forgotten in one direction; a test holds that neither side has a field that
the other lacks. What there is to do for each field of a type is found out once.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from operator import attrgetter
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from executor.model.errors import ErrorClass, ErrorDetail, Misconfigured

SURROGATE = re.compile("[\ud800-\udfff]")

T = TypeVar("T")
_Change = Callable[[Any], Any]

_hints: Callable[[Any], Mapping[str, Any]] = cache(get_type_hints)


def parts(value: object, leave_out: tuple[str, ...] = ()) -> dict[str, Any]:
    """What the message of a dataclass is made of: its fields by name, without those that are None."""
    names, changes, of = _plan(type(value))
    made = {
        name: item if change is None else change(item)
        for name, change, item in zip(names, changes, of(value), strict=True)
        if item is not None
    }
    for name in leave_out:
        made.pop(name, None)
    return made


def _planned(kind: Any) -> "_Plan":  # noqa: ANN401 - a dataclass
    hints = {field.name: _hints(kind)[field.name] for field in fields(kind)}
    attributes = list(hints)
    if kind is ErrorDetail:
        hints["class"] = ErrorClass
        attributes.append("error_class")
    get = attrgetter(*attributes)
    of = get if len(attributes) > 1 else lambda value: (get(value),)
    return tuple(hints), tuple(map(_change, hints.values())), of


_Plan = tuple[tuple[str, ...], tuple[_Change | None, ...], Callable[[Any], tuple[Any, ...]]]
"""The names of the fields, how each is changed on its way, and what gets all of them at once."""
_plan: Callable[[Any], _Plan] = cache(_planned)


def _change(hint: Any) -> _Change | None:  # noqa: ANN401 - a type of any form
    """None where the value goes as it is."""
    if get_origin(hint) is UnionType:
        return _change(get_args(hint)[0])
    if get_origin(hint) is tuple:
        change = _change(get_args(hint)[0])
        return list if change is None else lambda items: list(map(change, items))
    if is_dataclass(hint):
        return parts
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {member: member.name for member in hint}.__getitem__
    return shown if hint is str else None


def read(kind: type[T], message: Message, given: Mapping[str, Any] | None = None) -> T:
    """Raises Misconfigured for an enum value that this version does not know."""
    values = dict(given or {})
    for name, get in _getters(kind, type(message)):
        if name not in values:
            values[name] = get(message)
    return kind(**values)


def _got(kind: Any, wire: Any) -> tuple[tuple[str, _Change], ...]:  # noqa: ANN401 - a dataclass, a type of message
    descriptors = wire.DESCRIPTOR.fields_by_name
    return tuple((name, _getter(hint, descriptors[name])) for name, hint in _hints(kind).items() if name in descriptors)


_getters: Callable[[Any, Any], tuple[tuple[str, _Change], ...]] = cache(_got)


def _getter(hint: Any, field: FieldDescriptor) -> _Change:  # noqa: ANN401 - a type of any form
    name, get = field.name, attrgetter(field.name)
    if get_origin(hint) is UnionType:
        present = _getter(get_args(hint)[0], field)
        return lambda message: present(message) if message.HasField(name) else None
    if get_origin(hint) is tuple:
        item = get_args(hint)[0]
        if _is_model(item):
            return lambda message: tuple(read(item, one) for one in get(message))
        return lambda message: tuple(get(message))
    if _is_model(hint):
        return lambda message: read(hint, get(message))
    return _enum_getter(hint, field) if isinstance(hint, type) and issubclass(hint, Enum) else get


def _enum_getter(kind: type[Enum], field: FieldDescriptor) -> _Change:
    name, values = field.name, field.enum_type.values if field.enum_type else ()
    members = {value.number: kind[value.name] for value in values if value.name in kind.__members__}

    def get(message: Message) -> Enum:
        number = getattr(message, name)
        if (member := members.get(number)) is None:
            raise Misconfigured(
                f"The service answered {message.DESCRIPTOR.name}.{name} = {number}, which this version of the client "
                "does not know: update the client."
            )
        return member

    return get


def _is_model(thing: object) -> bool:
    return is_dataclass(thing)


def plain(value: Any) -> Any:  # noqa: ANN401 - whatever a model's field holds
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, str):
        return shown(value)
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if not is_dataclass(value):
        return value
    form = {"class": value.error_class.name} if isinstance(value, ErrorDetail) else {}
    present = ((field.name, getattr(value, field.name)) for field in fields(value))
    return form | {name: plain(item) for name, item in present if item is not None and item != ()}


def shown(text: str) -> str:
    """A lone surrogate, which JSON's escapes can make, has no UTF-8 form."""
    return text if text.isascii() else SURROGATE.sub("\ufffd", text)
