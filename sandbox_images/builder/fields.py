"""The fields of a YAML document, taken one by one and checked; knows no recipe.

Every scalar is read as text: YAML 1.1 would turn `NO` into false and `3.10` into 3.1.
"""

import re
from collections.abc import Callable
from typing import TypeVar

import yaml

from .errors import BuildError

Item = TypeVar("Item")

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class _TextLoader(yaml.BaseLoader):
    """Text, lists and maps; a key that stands twice is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[object, object]:  # noqa: FBT001, FBT002  # PyYAML's signature
        mapping = super().construct_mapping(node, deep=deep)
        if len(mapping) != len(node.value):
            keys = [key.value for key, _ in node.value]
            twice = sorted({key for key in keys if keys.count(key) > 1})
            raise yaml.constructor.ConstructorError(
                None, None, f"the key {', '.join(twice)} stands twice", node.start_mark
            )
        return mapping


class Fields:
    """A map of fields; what nobody took is unknown. Raises BuildError, with `where` (the file) before each message."""

    def __init__(self, where: str, document: object, expected: str) -> None:
        if not isinstance(document, dict):
            raise BuildError(f"{where}: must be a map of fields ({expected})")
        self._where = where
        self._left = dict(document)

    @classmethod
    def parse(cls, where: str, text: str, expected: str) -> "Fields":
        try:
            document = yaml.load(text, Loader=_TextLoader)  # noqa: S506  # a BaseLoader: it makes text, lists and maps
        except yaml.YAMLError as error:
            raise BuildError(f"{where}: is not valid YAML: {error}") from error
        return cls(where, document, expected)

    def named(self, name: str) -> str:
        """Later messages tell which of several records they are about."""
        self._where = f"{self._where}: {name}"
        return name

    def refuse_the_rest(self) -> None:
        if self._left:
            raise BuildError(f"{self._where}: unknown field: {', '.join(sorted(map(str, self._left)))}")

    def word(self, field: str, pattern: re.Pattern[str], default: str | None = None) -> str:
        value = self._left.pop(field, default)
        if value is None:
            raise self.error(field, "is missing")
        if value == default:
            return default
        return self._matching(field, value, pattern)

    def text(self, field: str, default: str | None = None) -> str:
        value = self._left.pop(field, default)
        if value is None:
            raise self.error(field, "is missing")
        if not isinstance(value, str):
            raise self.error(field, "must be text")
        return value

    def words(self, field: str, pattern: re.Pattern[str]) -> tuple[str, ...]:
        return self._each(field, lambda item: self._matching(field, item, pattern))

    def path(self, field: str) -> str:
        return self._path(field, self._left.pop(field, None))

    def paths(self, field: str) -> tuple[str, ...]:
        return self._each(field, lambda item: self._path(field, item))

    def commands(self, field: str) -> tuple[tuple[str, ...], ...]:
        return self._each(field, lambda item: self._command(field, item))

    def command_of_each(self, field: str) -> dict[str, tuple[str, ...]]:
        return {self._path(field, key): self._command(field, value) for key, value in self._map(field).items()}

    def records(self, field: str, read: Callable[["Fields"], Item], expected: str) -> tuple[Item, ...]:
        """A list of maps of fields; `read` takes what it knows, the rest is refused."""
        return self._each(field, lambda item: self._record(field, item, read, expected))

    def texts(self, field: str, *, is_path: bool) -> dict[str, str]:
        value = self._map(field)
        if not all(isinstance(item, str) for item in value.values()):
            raise self.error(field, "every value must be text")
        for key in value:
            _ = self._path(field, key) if is_path else self._matching(field, key, VARIABLE)
        return value

    def _record(self, field: str, value: object, read: Callable[["Fields"], Item], expected: str) -> Item:
        within = Fields(f"{self._where}: {field}", value, expected)
        found = read(within)
        within.refuse_the_rest()
        return found

    def _map(self, field: str) -> dict[str, str]:
        value = self._left.pop(field, {})
        if not isinstance(value, dict):
            raise self.error(field, "must be a map")
        return value

    def _each(self, field: str, read: Callable[[object], Item]) -> tuple[Item, ...]:
        value = self._left.pop(field, [])
        if not isinstance(value, list):
            raise self.error(field, "must be a list")
        return tuple(read(item) for item in value)

    def _matching(self, field: str, value: object, pattern: re.Pattern[str]) -> str:
        if isinstance(value, str) and pattern.fullmatch(value):
            return value
        raise self.error(field, f"{value!r} does not match {pattern.pattern}")

    def _path(self, field: str, value: object) -> str:
        if isinstance(value, str) and value and not value.startswith("/") and ".." not in value.split("/"):
            return value
        raise self.error(field, f"{value!r} must be a path relative to the image's root, without '..'")

    def _command(self, field: str, value: object) -> tuple[str, ...]:
        if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
            return tuple(value)
        raise self.error(field, f"{value!r} must be a list of words")

    def error(self, field: str, message: str) -> BuildError:
        return BuildError(f"{self._where}: {field}: {message}")
