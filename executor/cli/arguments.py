"""From the words of a command line to the JSON of a call's arguments, and to its files and limits. Checks what a shell
user gets wrong; whether the arguments fit the tool is admission's business.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from executor.admission.input_files import MAX_FILES_BYTES
from executor.cli.exits import Misuse
from executor.model.invocation import InputFile
from executor.model.limits import LIMIT_NAMES
from executor.schema.nearest import did_you_mean
from executor.schema.paths import path_problem

MAX_DEPTH = 32


class Stdin:
    """Standard input, which can be read once."""

    def __init__(self) -> None:
        self._reader: str | None = None

    def read(self, reader: str) -> bytes:
        if self._reader is not None:
            raise Misuse(f"{reader} and {self._reader} both read standard input; only one of them can")
        self._reader = reader
        return _bounded(reader, sys.stdin.buffer)


@dataclass(frozen=True, slots=True)
class Given:
    """The arguments as the user gave them, every file read."""

    verbatim: str | None = None
    texts: Mapping[str, str] = field(default_factory=dict)
    """By name; what each means depends on the type of the parameter."""

    def as_json(self, schema: Mapping[str, Any]) -> str:
        """Raises Misuse for a text that is no value of its parameter's type."""
        if self.verbatim is not None:
            return self.verbatim
        members = (f"{json.dumps(name)}: {_typed(name, text, schema)}" for name, text in self.texts.items())
        return "{" + ", ".join(members) + "}"


def given(pairs: Sequence[str], args: str | None, args_file: str | None, stdin: Stdin) -> Given:
    """One of `-a key=value`..., `--args JSON` and `--args-file FILE`, the last two verbatim. Raises Misuse."""
    if sum((bool(pairs), args is not None, args_file is not None)) > 1:
        raise Misuse("-a, --args and --args-file exclude each other: give the arguments in one way")
    if args is not None:
        return Given(utf8("--args", os.fsencode(args)))
    if args_file is not None:
        return Given(utf8("--args-file", _content("--args-file", args_file, stdin)))
    texts: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise Misuse(f"-a {pair}: write -a name=value")
        if name in texts:
            raise Misuse(f"-a {name}=...: the argument is given twice")
        texts[utf8("-a", os.fsencode(name))] = _text(f"-a {name}=", value, stdin)
    return Given(None, texts)


def input_files(items: Sequence[str], stdin: Stdin) -> tuple[InputFile, ...]:
    """`PATH=LOCAL`, or `PATH` where the two are the same. Raises Misuse."""
    return tuple(_input_file(item, stdin) for item in items)


def limit_overrides(items: Sequence[str]) -> dict[str, float]:
    """`name=value`. Raises Misuse."""
    limits = {}
    for item in items:
        name, equals, text = item.partition("=")
        if name not in LIMIT_NAMES:
            guess = did_you_mean(name, LIMIT_NAMES)
            raise Misuse(f"--limit {item}: {guess or 'the limits are ' + ', '.join(LIMIT_NAMES)}")
        if not equals or (number := _number(text)) is None or not 0 < number < float("inf"):
            raise Misuse(f"--limit {item}: write {name}=NUMBER, with a positive number")
        limits[name] = number
    return limits


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _text(option: str, value: str, stdin: Stdin) -> str:
    if value.startswith("@@"):
        value = value[1:]
    elif value.startswith("@"):
        return utf8(option + value, _content(option + value, value[1:], stdin))
    return utf8(option, os.fsencode(value))


def _typed(name: str, text: str, schema: Mapping[str, Any]) -> str:
    properties = schema.get("properties")
    declared = properties.get(name) if isinstance(properties, Mapping) else None
    types = _types(declared, schema)
    if "string" in types:
        return json.dumps(text, ensure_ascii=False)
    if _is_json(text):
        return text.strip()
    if types:
        raise Misuse(f"-a {name}=...: {name} takes {' or '.join(sorted(types))}, and the value is not valid JSON")
    return json.dumps(text, ensure_ascii=False)


def _types(declared: Any, root: Mapping[str, Any], depth: int = 0) -> frozenset[str]:  # noqa: ANN401 - a JSON Schema
    """The JSON types that a schema names; empty where it names none."""
    if not isinstance(declared, Mapping) or depth > MAX_DEPTH:
        return frozenset()
    if "type" in declared:
        named = declared["type"]
        return frozenset([named] if isinstance(named, str) else named)
    if "const" in declared or "enum" in declared:
        values = declared.get("enum", [declared.get("const")])
        return frozenset("string" if isinstance(value, str) else "value" for value in values)
    choices = [*declared.get("anyOf", ()), *declared.get("oneOf", ()), _referred(declared.get("$ref"), root)]
    return frozenset().union(*(_types(choice, root, depth + 1) for choice in choices))


def _referred(ref: object, root: Any) -> Any:  # noqa: ANN401 - a JSON Schema
    """What a `$ref` within the document means; None for any other."""
    if not isinstance(ref, str) or not ref.startswith("#/"):
        return None
    for part in ref[2:].split("/"):
        root = root.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(root, Mapping) else None
    return root


def _is_json(text: str) -> bool:
    try:
        json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


def _input_file(item: str, stdin: Stdin) -> InputFile:
    path, equals, local = item.partition("=")
    option = f"--file {item}"
    if problem := path_problem(path):
        raise Misuse(f"{option}: the path in the workspace {problem}; write --file PATH=LOCAL")
    local = local if equals else path
    content = _content(option, local, stdin)
    return InputFile(path=path, content=content, executable=local != "-" and os.access(local, os.X_OK))


def _content(option: str, local: str, stdin: Stdin) -> bytes:
    if local == "-":
        return stdin.read(option)
    try:
        with Path(local).open("rb") as file:
            return _bounded(option, file)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise Misuse(f"{option}: {local or 'an empty file name'} cannot be read: {reason}") from None


def _bounded(option: str, source: BinaryIO) -> bytes:
    """A device or a pipe may have no end."""
    try:
        content = source.read(MAX_FILES_BYTES + 1)
    except OSError as error:
        raise Misuse(f"{option}: cannot be read: {error.strerror}") from None
    if len(content) > MAX_FILES_BYTES:
        raise Misuse(f"{option}: there are more than {MAX_FILES_BYTES} bytes, which no call takes")
    return content


def utf8(option: str, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise Misuse(f"{option}: not UTF-8 (byte {error.start}); pass such data with --file") from None
