"""Reads `image.yaml`, the one declarative file of an image, into a frozen value, and refuses what it cannot mean."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from .errors import BuildError
from .fields import Fields

FORMAT = 1
"""Raised when the builder makes something else of the same recipe; part of the recipe's digest."""

_NAME = re.compile(r"[a-z][a-z0-9-]{0,62}")
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]+")
_PINNED = re.compile(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!+_]+")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_MODULE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*")
_PROGRAM = re.compile(r"(?:/(?!\.\.?(?:/|$))[A-Za-z0-9._+-]+)+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """A wheel from a Python package index, pinned."""

    requirement: str
    """`name==version`"""
    sha256: tuple[str, ...]
    """Of every file that may be chosen; one for each architecture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A change of one file of a package or wheel."""

    path: str
    old: str
    """Must stand in the file exactly once."""
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """An interpreter that the service starts once, and forks for each call that it can serve."""

    name: str
    interpreter: str
    """Absolute path inside, of a CPython 3.10 or later."""
    modules: tuple[str, ...]
    """Imported in this order."""
    warm: str
    """Python source, run once after the imports."""


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
    edits: tuple[Edit, ...]
    bytecode: tuple[str, ...]
    """Directories whose Python modules are compiled ahead."""
    directories: tuple[str, ...]
    links: Mapping[str, str]
    """Path to link target."""
    bundles: Mapping[str, str]
    """Path to a glob, whose files are concatenated into it."""
    files: Mapping[str, str]
    """Path to text; what starts with `#!` becomes executable."""
    printed: Mapping[str, tuple[str, ...]]
    """Path to a command of the finished image, whose standard output becomes the file."""
    environment: Mapping[str, str]
    templates: tuple[Template, ...]
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
    fields = Fields.parse(where, text, "name, suite, packages, ...")
    recipe = Recipe(
        name=fields.word("name", _NAME),
        suite=fields.word("suite", _NAME),
        packages=fields.words("packages", _PACKAGE),
        without=fields.words("without", _PACKAGE),
        exclude=fields.paths("exclude"),
        keep=fields.paths("keep"),
        python=fields.word("python", re.compile(r"3\.[0-9]+"), default=""),
        wheels=fields.records("wheels", _wheel, "requirement, sha256"),
        edits=fields.records("edits", _edit, "path, old, new"),
        bytecode=fields.paths("bytecode"),
        directories=fields.paths("directories"),
        links=fields.texts("links", is_path=True),
        bundles=fields.texts("bundles", is_path=True),
        files=fields.texts("files", is_path=True),
        printed=fields.command_of_each("printed"),
        environment=fields.texts("environment", is_path=False),
        templates=fields.records("templates", _template, "name, interpreter, modules, warm"),
        checks=fields.commands("checks"),
    )
    fields.refuse_the_rest()
    return _consistent(recipe, where)


def _wheel(fields: Fields) -> Wheel:
    requirement = fields.named(fields.word("requirement", _PINNED))
    wheel = Wheel(requirement=requirement, sha256=fields.words("sha256", _SHA256))
    if not wheel.sha256:
        raise fields.error("sha256", "must have a hash for each architecture")
    return wheel


def _edit(fields: Fields) -> Edit:
    edit = Edit(path=fields.named(fields.path("path")), old=fields.text("old"), new=fields.text("new"))
    if not edit.old:
        raise fields.error("old", "must be the text that is replaced")
    return edit


def _template(fields: Fields) -> Template:
    return Template(
        name=fields.named(fields.word("name", _NAME)),
        interpreter=fields.word("interpreter", _PROGRAM, default="/usr/bin/python3"),
        modules=fields.words("modules", _MODULE),
        warm=fields.text("warm", default=""),
    )


def _consistent(recipe: Recipe, where: str) -> Recipe:
    if not recipe.packages:
        raise BuildError(f"{where}: packages: names no package, so the image would be empty")
    if (recipe.wheels or recipe.bytecode) and not recipe.python:
        raise BuildError(f"{where}: python: wheels and bytecode need the version of the image's Python, as in '3.11'")
    twice = [name for name, count in Counter(template.name for template in recipe.templates).items() if count > 1]
    if twice:
        raise BuildError(f"{where}: templates: the name {', '.join(twice)} stands twice; give each its own")
    return recipe
