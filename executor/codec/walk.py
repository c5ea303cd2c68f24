"""One walk over a dataclass and the message that has the same field names and enum values.

Nothing is listed twice, so nothing can be forgotten in one direction; a test holds that neither side has a field that
the other lacks.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from google.protobuf.descriptor import EnumDescriptor
from google.protobuf.message import Message

from executor.model.errors import ErrorDetail, Misconfigured

SURROGATE = re.compile("[\ud800-\udfff]")

T = TypeVar("T")


def fill(message: Message, value: object, leave_out: tuple[str, ...] = ()) -> None:
    """Every field of the dataclass `value` into the field of the same name."""
    if isinstance(value, ErrorDetail):
        _put(message, "class", value.error_class)
    for field in fields(value):  # type: ignore[arg-type]  # always a dataclass: `value` cannot be typed as one
        if field.name not in leave_out:
            _put(message, field.name, getattr(value, field.name))


def _put(message: Message, name: str, value: Any) -> None:  # noqa: ANN401 - whatever a model's field holds
    if value is None:
        return
    if isinstance(value, tuple):
        for item in value:
            if _is_model(item):
                fill(getattr(message, name).add(), item)
            else:
                getattr(message, name).append(shown(item))
    elif _is_model(value):
        getattr(message, name).SetInParent()
        fill(getattr(message, name), value)
    elif isinstance(value, Enum):
        setattr(message, name, _values(message, name).values_by_name[value.name].number)
    else:
        setattr(message, name, shown(value) if isinstance(value, str) else value)


_hints: Callable[[Any], Mapping[str, Any]] = cache(get_type_hints)


def _is_model(thing: object) -> bool:
    return is_dataclass(thing)


def _values(message: Message, name: str) -> EnumDescriptor:
    values: EnumDescriptor = message.DESCRIPTOR.fields_by_name[name].enum_type  # type: ignore[assignment]  # an enum field
    return values


def read(kind: type[T], message: Message, given: Mapping[str, Any] | None = None) -> T:
    values = dict(given or {})
    for name, hint in _hints(kind).items():
        if name not in values:
            values[name] = _get(message, name, hint)
    return kind(**values)


def _get(message: Message, name: str, hint: Any) -> Any:  # noqa: ANN401 - whatever a model's field holds
    value = getattr(message, name)
    if get_origin(hint) is UnionType:
        return _get(message, name, get_args(hint)[0]) if message.HasField(name) else None
    if get_origin(hint) is tuple:
        item = get_args(hint)[0]
        return tuple(read(item, one) for one in value) if _is_model(item) else tuple(value)
    if _is_model(hint):
        return read(hint, value)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _member(hint, message, name, value)
    return value


def _member(kind: type[Enum], message: Message, name: str, number: int) -> Enum:
    known = _values(message, name).values_by_number.get(number)
    if known is None or known.name not in kind.__members__:
        raise Misconfigured(
            f"The service answered {message.DESCRIPTOR.name}.{name} = {number}, which this version of the client does "
            "not know: update the client."
        )
    return kind[known.name]


def plain(value: Any) -> Any:  # noqa: ANN401 - whatever a model's field holds
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, str):
        return shown(value)
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if not _is_model(value):
        return value
    form = {"class": value.error_class.name} if isinstance(value, ErrorDetail) else {}
    present = ((field.name, getattr(value, field.name)) for field in fields(value))
    return form | {name: plain(item) for name, item in present if item is not None and item != ()}


def shown(text: str) -> str:
    """A lone surrogate, which JSON's escapes can make, has no UTF-8 form."""
    return SURROGATE.sub("\ufffd", text)
