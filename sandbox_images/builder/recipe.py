"""Reads `image.yaml`, the one declarative file of an image, into a frozen value, and refuses what it cannot mean.

Every scalar is read as text: YAML 1.1 would turn `NO` into false and `3.10` into 3.1.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

import yaml

from .errors import BuildError

FORMAT = 1
"""Raised when the builder makes something else of the same recipe; part of the recipe's digest."""

Item = TypeVar("Item")

_NAME = re.compile(r"[a-z][a-z0-9-]{0,62}")
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]+")
_PINNED = re.compile(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!+_]+")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """A wheel from a Python package index, pinned."""

    requirement: str
    """`name==version`"""
    sha256: tuple[str, ...]
    """Of every file that may be chosen; one for each architecture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Paths are relative to the image's root."""

    name: str
    suite: str
    """Code name of the Debian release."""
    packages: tuple[str, ...]
    without: tuple[str, ...]
    """Packages that apt resolves as dependencies, but which are not unpacked."""
    exclude: tuple[str, ...]
    keep: tuple[str, ...]
    """Wins over `exclude`."""
    python: str
    """Version (major.minor) of the image's Python; empty where there is none."""
    wheels: tuple[Wheel, ...]
    bytecode: tuple[str, ...]
    """Directories whose Python modules are compiled ahead."""
    directories: tuple[str, ...]
    links: Mapping[str, str]
    """Path to link target."""
    bundles: Mapping[str, str]
    """Path to a glob, whose files are concatenated into it."""
    files: Mapping[str, str]
    """Path to text; what starts with `#!` becomes executable."""
    environment: Mapping[str, str]
    checks: tuple[tuple[str, ...], ...]
    """Commands that must succeed inside the finished image."""

    def digest(self, architecture: str) -> str:
        text = json.dumps([FORMAT, architecture, asdict(self)], sort_keys=True)
        return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def load(path: Path) -> Recipe:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise BuildError(
            f"{path}: cannot be read ({error.strerror}); an image is a directory with image.yaml"
        ) from error
    return parse(text, str(path))


def parse(text: str, where: str) -> Recipe:
    """`where` names the file in messages."""
    try:
        document = yaml.load(text, Loader=_TextLoader)  # noqa: S506  # a BaseLoader: it makes text, lists and maps
    except yaml.YAMLError as error:
        raise BuildError(f"{where}: is not valid YAML: {error}") from error
    fields = _Fields(where, document)
    recipe = Recipe(
        name=fields.word("name", _NAME),
        suite=fields.word("suite", _NAME),
        packages=fields.words("packages", _PACKAGE),
        without=fields.words("without", _PACKAGE),
        exclude=fields.paths("exclude"),
        keep=fields.paths("keep"),
        python=fields.word("python", re.compile(r"3\.[0-9]+"), default=""),
        wheels=fields.wheels("wheels"),
        bytecode=fields.paths("bytecode"),
        directories=fields.paths("directories"),
        links=fields.texts("links", is_path=True),
        bundles=fields.texts("bundles", is_path=True),
        files=fields.texts("files", is_path=True),
        environment=fields.texts("environment", is_path=False),
        checks=fields.commands("checks"),
    )
    fields.refuse_the_rest()
    return _consistent(recipe, where)


def _consistent(recipe: Recipe, where: str) -> Recipe:
    if not recipe.packages:
        raise BuildError(f"{where}: packages: names no package, so the image would be empty")
    if (recipe.wheels or recipe.bytecode) and not recipe.python:
        raise BuildError(f"{where}: python: wheels and bytecode need the version of the image's Python, as in '3.11'")
    return recipe


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


class _Fields:
    """The fields of the document, taken one by one; what nobody took is unknown."""

    def __init__(self, where: str, document: object) -> None:
        if not isinstance(document, dict):
            raise BuildError(f"{where}: must be a map of fields (name, suite, packages, ...)")
        self._where = where
        self._left = dict(document)

    def refuse_the_rest(self) -> None:
        if self._left:
            raise BuildError(f"{self._where}: unknown field: {', '.join(sorted(map(str, self._left)))}")

    def word(self, field: str, pattern: re.Pattern[str], default: str | None = None) -> str:
        value = self._left.pop(field, default)
        if value is None:
            raise self._error(field, "is missing")
        if value == default:
            return default
        return self._matching(field, value, pattern)

    def words(self, field: str, pattern: re.Pattern[str]) -> tuple[str, ...]:
        return self._each(field, lambda item: self._matching(field, item, pattern))

    def paths(self, field: str) -> tuple[str, ...]:
        return self._each(field, lambda item: self._path(field, item))

    def commands(self, field: str) -> tuple[tuple[str, ...], ...]:
        return self._each(field, lambda item: self._command(field, item))

    def wheels(self, field: str) -> tuple[Wheel, ...]:
        return self._each(field, lambda item: self._wheel(field, item))

    def texts(self, field: str, *, is_path: bool) -> dict[str, str]:
        value = self._left.pop(field, {})
        if not isinstance(value, dict):
            raise self._error(field, "must be a map")
        if not all(isinstance(item, str) for item in value.values()):
            raise self._error(field, "every value must be text")
        for key in value:
            _ = self._path(field, key) if is_path else self._matching(field, key, _VARIABLE)
        return value

    def _each(self, field: str, read: Callable[[object], Item]) -> tuple[Item, ...]:
        value = self._left.pop(field, [])
        if not isinstance(value, list):
            raise self._error(field, "must be a list")
        return tuple(read(item) for item in value)

    def _matching(self, field: str, value: object, pattern: re.Pattern[str]) -> str:
        if isinstance(value, str) and pattern.fullmatch(value):
            return value
        raise self._error(field, f"{value!r} does not match {pattern.pattern}")

    def _path(self, field: str, value: object) -> str:
        if isinstance(value, str) and value and not value.startswith("/") and ".." not in value.split("/"):
            return value
        raise self._error(field, f"{value!r} must be a path relative to the image's root, without '..'")

    def _command(self, field: str, value: object) -> tuple[str, ...]:
        if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
            return tuple(value)
        raise self._error(field, f"{value!r} must be a list of words")

    def _wheel(self, field: str, value: object) -> Wheel:
        if not isinstance(value, dict) or set(value) != {"requirement", "sha256"}:
            raise self._error(field, f"{value!r} must have the fields requirement and sha256")
        requirement = self._matching(field, value["requirement"], _PINNED)
        hashes = value["sha256"]
        if not isinstance(hashes, list) or not hashes:
            raise self._error(field, f"{requirement}: sha256 must be a list of one or more")
        return Wheel(
            requirement=requirement,
            sha256=tuple(self._matching(f"{field}: {requirement}", item, _SHA256) for item in hashes),
        )

    def _error(self, field: str, message: str) -> BuildError:
        return BuildError(f"{self._where}: {field}: {message}")
