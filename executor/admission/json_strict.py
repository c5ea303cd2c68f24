"""Strict JSON: what the standard library takes in silently is refused here by name, with a pointer.

Repeated keys, NaN and infinities, numbers beyond 64 bits, lone surrogates, text after the end, and nesting that is too
deep. Called with text that a model wrote, so it must never raise anything but Refused.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

from executor.model.errors import Violation
from executor.schema.nearest import brief
from executor.schema.pointer import pointer
from executor.schema.validator import MAX_VIOLATIONS

_Path = tuple[str | int, ...]

_SPACE = " \t\n\r"
_SMALLEST, _LARGEST = -(2**63), 2**64 - 1
_MAX_INTEGER_CHARS = 20

_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[\]{}]', re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]|\\\\u[dD][89a-fA-F]")


class Refused(ValueError):
    """The text is not JSON that we accept."""

    def __init__(self, *violations: Violation) -> None:
        super().__init__(violations[0].message)
        self.violations = violations

    @property
    def keyword(self) -> str:
        return self.violations[0].keyword


def strict(text: str, max_depth: int) -> Any:  # noqa: ANN401
    """The value of strict JSON. Raises Refused; never RecursionError."""
    _refuse_depth(text, max_depth)
    plain = _plain(text)
    if plain:
        try:
            return _PLAIN.decode(text)
        except ValueError:  # the reader below names what is wrong, and where
            pass
    reader = _Reader()
    value = reader.value(text)
    if reader.suspect or (not plain and _SURROGATE.search(text)):
        found = tuple(islice(reader.violations(value), MAX_VIOLATIONS))
        if found:
            raise Refused(*found)
    return value


def _plain(text: str) -> bool:
    """It cannot hold a surrogate: told at once of what most models write."""
    return text.isascii() and "\\u" not in text


def _refuse_depth(text: str, max_depth: int) -> None:
    if text.count("{") + text.count("[") <= max_depth:
        return
    depth = 0
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in ("{", "["):
            depth += 1
        elif token in ("}", "]"):
            depth = max(depth - 1, 0)
        if depth > max_depth:
            message = f"The arguments are nested more than {max_depth} levels deep."
            raise Refused(Violation(pointer="", keyword="depth", message=message))


class _BadNumber:
    """Stands in the value where a number cannot, until its pointer is known."""

    def __init__(self, keyword: str, message: str) -> None:
        self.keyword = keyword
        self.message = message


class _Reader:
    """One parse, and what it met on its way that needs a second look."""

    def __init__(self) -> None:
        self.suspect = False
        self._duplicates: dict[int, tuple[dict[str, Any], tuple[str, ...]]] = {}
        """Identity of an object -> the object, which keeps the identity its own, and its repeated keys."""
        self._decoder = json.JSONDecoder(
            object_pairs_hook=self._object,
            parse_int=self._integer,
            parse_float=self._float,
            parse_constant=self._constant,
        )

    def value(self, text: str) -> Any:  # noqa: ANN401
        start = len(text) - len(text.lstrip(_SPACE))
        try:
            value, end = self._decoder.raw_decode(text, start)
        except json.JSONDecodeError as error:
            message = f"Not valid JSON at line {error.lineno}, column {error.colno}: {error.msg}."
            raise Refused(Violation(pointer="", keyword="syntax", message=message)) from None
        rest = text[end:].strip(_SPACE)
        if rest:
            line, column = text.count("\n", 0, end) + 1, end - text.rfind("\n", 0, end)
            message = f"There is text after the end of the JSON value (line {line}, column {column}): {brief(rest, 60)}"
            raise Refused(Violation(pointer="", keyword="trailing", message=message))
        return value

    def violations(self, value: Any) -> Iterator[Violation]:  # noqa: ANN401
        """What is wrong, in the order of the text; a repeated key whose object was itself dropped comes last."""
        untold = dict(self._duplicates)
        stack: list[tuple[_Path, Any]] = [((), value)]
        while stack:
            path, item = stack.pop()
            _, repeated = untold.pop(id(item), (None, ()))
            yield from (_duplicate((*path, key), key) for key in repeated)
            yield from _own_violations(path, item)
            stack.extend(reversed(_children(path, item)))
        yield from (_duplicate((), key) for _, repeated in untold.values() for key in repeated)

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) != len(pairs):
            self.suspect = True
            counts = Counter(key for key, _ in pairs)
            self._duplicates[id(made)] = made, tuple(key for key, count in counts.items() if count > 1)
        return made

    def _integer(self, text: str) -> int | _BadNumber:
        try:
            return _small(text)
        except ValueError:
            return self._bad("range", f"The number {brief(text, 40)} does not fit into 64 bits.")

    def _float(self, text: str) -> float | _BadNumber:
        try:
            return _finite(text)
        except ValueError:
            return self._bad("range", f"The number {brief(text, 40)} is too large.")

    def _constant(self, text: str) -> _BadNumber:
        return self._bad("nonFinite", f"{text} is not a JSON number.")

    def _bad(self, keyword: str, message: str) -> _BadNumber:
        self.suspect = True
        return _BadNumber(keyword, message)


def _children(path: _Path, item: object) -> list[tuple[_Path, Any]]:
    if isinstance(item, list):
        return [((*path, index), child) for index, child in enumerate(item)]
    return [((*path, key), child) for key, child in item.items()] if isinstance(item, dict) else []


def _own_violations(path: _Path, item: object) -> Iterator[Violation]:
    if isinstance(item, _BadNumber):
        yield Violation(pointer=pointer(path), keyword=item.keyword, message=item.message)
    elif isinstance(item, str):
        yield from _surrogates(path, item)
    elif isinstance(item, dict):
        for key in item:
            yield from _surrogates((*path, key), key)


def _duplicate(path: _Path, key: str) -> Violation:
    message = f"The key `{brief(key, 80)}` stands twice in one object."
    return Violation(pointer=pointer(path), keyword="duplicateKey", message=message)


def _surrogates(path: _Path, text: str) -> Iterator[Violation]:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        message = f"Character {error.start} is a lone surrogate (\\u{ord(text[error.start]):04x}), not a character."
        yield Violation(pointer=pointer(path), keyword="surrogate", message=message)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError
    return made


def _small(text: str) -> int:
    if len(text) <= _MAX_INTEGER_CHARS and _SMALLEST <= (number := int(text)) <= _LARGEST:
        return number
    raise ValueError


def _finite(text: str) -> float:
    number = float(text)
    if abs(number) == float("inf"):
        raise ValueError
    return number


def _none(text: str) -> None:
    raise ValueError(text)


_PLAIN = json.JSONDecoder(object_pairs_hook=_unique, parse_int=_small, parse_float=_finite, parse_constant=_none)
"""Takes what the reader takes without a second look, and is made once."""
