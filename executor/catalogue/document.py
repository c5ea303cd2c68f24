"""YAML 1.2 (core schema) as plain values, each with its line and column.

PyYAML's own constructors follow YAML 1.1: they read NO as False and 0755 as 493, drop duplicate keys silently and
expand aliases without a bound. Here only its parser is used, as a stream of events. A manifest needs no anchors, no
tags but the core ones and no second document; all of them are refused by name. Mapping keys are taken as their text.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import yaml

from executor.catalogue.diagnostic import Path
from executor.schema.nearest import brief

MAX_DEPTH = 64
MAX_BYTES = 1024 * 1024
_TAG = "tag:yaml.org,2002:"
_LARGEST_INTEGER = 2**63
_MAX_NUMBER_CHARS = 64
_Number = TypeVar("_Number", int, float)
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_SURROGATE = re.compile("[\ud800-\udfff]")
_NULL = re.compile(r"(?:null|Null|NULL|~|)")
_TRUE = re.compile(r"(?:true|True|TRUE)")
_FALSE = re.compile(r"(?:false|False|FALSE)")
_INTEGERS = (
    (re.compile(r"[-+]?[0-9]+"), 10, 0),
    (re.compile(r"0o[0-7]+"), 8, 2),
    (re.compile(r"0x[0-9a-fA-F]+"), 16, 2),
)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))")


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a file; line and column start at 1."""

    line: int = 1
    column: int = 1


@dataclass(frozen=True, slots=True)
class Document:
    value: Any
    marks: Mapping[Path, Mark]
    """Where each value starts."""
    keys: Mapping[Path, Mark]
    """Where the key of each value of a mapping starts."""

    def locate(self, path: Path, *, at_key: bool = False) -> Mark:
        """The place of `path`, or of its nearest ancestor that exists."""
        if at_key and path in self.keys:
            return self.keys[path]
        while path not in self.marks and path:
            path = path[:-1]
        return self.marks.get(path, Mark())


class Unreadable(ValueError):
    """The file is not YAML that we accept."""

    def __init__(self, mark: Mark, rule: str, message: str) -> None:
        super().__init__(message)
        self.mark = mark
        self.rule = rule
        self.message = message


def read(content: bytes) -> Document:
    """The one document of a file. Raises Unreadable."""
    text = _decoded(content)
    try:
        composer = _Composer(yaml.parse(text, Loader=_LOADER))
        return composer.document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise Unreadable(_mark(mark), "yaml-syntax", f"not valid YAML: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise Unreadable(Mark(), "yaml-syntax", f"not valid YAML: {brief(str(error))}") from error


def _decoded(content: bytes) -> str:
    if len(content) > MAX_BYTES:
        raise Unreadable(Mark(), "yaml-size", f"the file is larger than {MAX_BYTES} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        mark = Mark(before.count(b"\n") + 1, len(before) - (before.rfind(b"\n") + 1) + 1)
        raise Unreadable(mark, "yaml-encoding", "the file is not UTF-8") from error


def _mark(mark: Any) -> Mark:  # noqa: ANN401 - two classes, one of them in C
    return Mark(mark.line + 1, mark.column + 1) if mark is not None else Mark()


class _Composer:
    def __init__(self, events: Iterator[Any]) -> None:
        self._events = events
        self._marks: dict[Path, Mark] = {}
        self._keys: dict[Path, Mark] = {}

    def document(self) -> Document:
        next(self._events)  # start of the stream
        event = next(self._events)
        if isinstance(event, yaml.StreamEndEvent):
            raise Unreadable(Mark(), "yaml-empty", "the file holds no document")
        value = self._value(next(self._events), ())
        next(self._events)  # end of the document
        event = next(self._events)
        if not isinstance(event, yaml.StreamEndEvent):
            raise Unreadable(_mark(event.start_mark), "yaml-documents", "a manifest file holds one document only")
        return Document(value, self._marks, self._keys)

    def _value(self, event: Any, path: Path) -> Any:  # noqa: ANN401
        mark = self._marks[path] = _mark(event.start_mark)
        if len(path) > MAX_DEPTH:
            raise Unreadable(mark, "yaml-depth", f"nested more than {MAX_DEPTH} levels deep")
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise Unreadable(mark, "yaml-alias", "anchors and aliases are not allowed: write the value out")
        match event:
            case yaml.ScalarEvent():
                return _scalar(event, mark)
            case yaml.SequenceStartEvent():
                _check_tag(event.tag, "seq", mark)
                return self._sequence(path)
            case _:
                _check_tag(event.tag, "map", mark)
                return self._mapping(path)

    def _sequence(self, path: Path) -> list[Any]:
        items: list[Any] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._value(event, (*path, len(items))))
        return items

    def _mapping(self, path: Path) -> dict[str, Any]:
        items: dict[str, Any] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            mark = _mark(event.start_mark)
            if not isinstance(event, yaml.ScalarEvent) or event.anchor is not None or _SURROGATE.search(event.value):
                raise Unreadable(mark, "yaml-key", "a key must be a plain text, without anchor or alias")
            if event.value in items:
                message = f"the key `{brief(event.value, 80)}` stands here for the second time"
                raise Unreadable(mark, "duplicate-key", message)
            at = (*path, event.value)
            self._keys[at] = mark
            items[event.value] = self._value(next(self._events), at)
        return items


def _check_tag(tag: str | None, kind: str, mark: Mark) -> None:
    if tag not in (None, "!", _TAG + kind):
        raise Unreadable(mark, "yaml-tag", f"the tag {brief(str(tag), 80)} is not allowed")


def _scalar(event: Any, mark: Mark) -> Any:  # noqa: ANN401
    if _SURROGATE.search(event.value):  # libyaml refuses it, the parser in Python does not
        raise Unreadable(mark, "yaml-encoding", "a lone surrogate is no character")
    plain, _ = event.implicit
    if plain and event.tag is None:
        return _resolved(event.value, mark)
    if event.tag in (None, "!", _TAG + "str"):
        return event.value
    value = _resolved(event.value, mark)
    if event.tag != _TAG + _TAG_OF[type(value)]:
        raise Unreadable(mark, "yaml-tag", f"the tag {brief(event.tag, 80)} is not allowed here")
    return value


_TAG_OF: Mapping[type, str] = {type(None): "null", bool: "bool", int: "int", float: "float", str: "str"}


def _resolved(text: str, mark: Mark) -> str | int | float | bool | None:
    """A plain scalar by the core schema of YAML 1.2."""
    constants: tuple[tuple[re.Pattern[str], bool | None], ...] = ((_NULL, None), (_TRUE, True), (_FALSE, False))
    for pattern, constant in constants:
        if pattern.fullmatch(text):
            return constant
    for pattern, base, prefix in _INTEGERS:
        if pattern.fullmatch(text):
            _refuse_long(text, mark)
            return _bounded(int(text[prefix:], base), text, mark)
    if _FLOAT.fullmatch(text):
        _refuse_long(text, mark)
        return _bounded(float(text), text, mark)
    if _NOT_FINITE.fullmatch(text):
        raise Unreadable(mark, "yaml-number", f"{text} is not a finite number")
    return text


def _refuse_long(text: str, mark: Mark) -> None:
    if len(text) > _MAX_NUMBER_CHARS:
        raise Unreadable(mark, "yaml-number", f"{brief(text, 40)} has more than {_MAX_NUMBER_CHARS} characters")


def _bounded(number: _Number, text: str, mark: Mark) -> _Number:
    if not -_LARGEST_INTEGER <= number < _LARGEST_INTEGER:
        raise Unreadable(mark, "yaml-number", f"{text} does not fit into 64 bits")
    return number
