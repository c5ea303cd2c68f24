r"""Templates: `{{name}}` becomes exactly one literal value. Pure; makes no process and reads no file.

Only `{{` + a name + `}}`, without white space, is a placeholder; every other brace is itself, and `\{{` is a literal
`{{`. A value is put in once and never looked at again, so a value that reads `{{other}}` stays what it is.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from executor.model.errors import ErrorCode, ErrorDetail, InvocationError, Violation
from executor.model.invocation import InputFile
from executor.model.tool import Command
from executor.schema.canonical import canonical_json
from executor.schema.pointer import pointer

MAX_ARGV_ITEM_BYTES = 128 * 1024 - 1
"""The kernel's MAX_ARG_STRLEN, which counts the NUL at the end."""
MAX_ARGV_BYTES = 1536 * 1024
"""Of all items and the environment together, with their NULs; below the kernel's 2 MiB for an 8 MiB stack."""

_TOKEN = re.compile(r"\\\{\{|\{\{(?P<name>[A-Za-z_][A-Za-z0-9_-]*)\}\}")
_NEAR_MISS = re.compile(r"(?<!\\)\{\{\s*([A-Za-z_][A-Za-z0-9_-]*)\s*\}\}")


@dataclass(frozen=True, slots=True)
class Placeholder:
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """A command with its arguments put in; the caller makes a Process of it."""

    argv: tuple[str, ...]
    stdin: bytes
    files: tuple[InputFile, ...]
    environment: Mapping[str, str]


def parts(template: str) -> tuple[str | Placeholder, ...]:
    """Literal texts and placeholders, in order; no empty literal."""
    return tuple(_parts(template))


def placeholders(template: str) -> tuple[str, ...]:
    return tuple(part.name for part in parts(template) if isinstance(part, Placeholder))


def near_misses(template: str) -> tuple[str, ...]:
    """Names in what looks like a placeholder and is none, such as `{{ name }}`."""
    return tuple(m[1] for m in _NEAR_MISS.finditer(template) if _TOKEN.fullmatch(m[0]) is None)


def with_defaults(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments, and the `default` of each absent property of the schema's top level."""
    declared = schema.get("properties", {}).items()
    defaults = {name: sub["default"] for name, sub in declared if isinstance(sub, dict) and "default" in sub}
    return defaults | dict(arguments)


def render(command: Command, arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> Rendered:
    """The command with each placeholder replaced by its argument.

    Strings go in as they are, everything else as canonical JSON. An item of argv that has an absent optional parameter
    in it is left out as a whole; in stdin and files such a parameter is an empty text. Raises InvocationError:
    SCHEMA_VIOLATION for a value that argv or UTF-8 cannot hold, PAYLOAD_TOO_LARGE for one that argv has no room for.
    """
    texts = {name: _text(value) for name, value in with_defaults(arguments, schema).items()}
    _refuse_lone_surrogates(texts)
    argv = tuple(_argv(command.argv, texts))
    _refuse_large(argv, command.environment)
    return Rendered(
        argv=argv,
        stdin=_filled(command.stdin or "", texts).encode(),
        files=tuple(
            InputFile(path=path, content=_filled(template, texts).encode(), internal=True)
            for path, template in command.files.items()
        ),
        environment=dict(command.environment),
    )


def _parts(template: str) -> Iterator[str | Placeholder]:
    position, literal = 0, ""
    for match in _TOKEN.finditer(template):
        literal += template[position : match.start()]
        position = match.end()
        if match["name"] is None:
            literal += "{{"
            continue
        if literal:
            yield literal
            literal = ""
        yield Placeholder(match["name"])
    if literal := literal + template[position:]:
        yield literal


def _text(value: object) -> str:
    return value if isinstance(value, str) else canonical_json(value)


def _filled(template: str, texts: Mapping[str, str]) -> str:
    return "".join(texts.get(p.name, "") if isinstance(p, Placeholder) else p for p in parts(template))


def _argv(templates: tuple[str, ...], texts: Mapping[str, str]) -> Iterator[str]:
    for template in templates:
        names = placeholders(template)
        if not all(name in texts for name in names):
            continue
        for name in names:
            _refuse_unfit(name, texts[name])
        yield _filled(template, texts)


def _refuse_unfit(name: str, text: str) -> None:
    if "\0" in text:
        raise _unfit(name, "nul", "a command line cannot hold a NUL character", "Leave the NUL character out.")
    size = len(text.encode())
    if size > MAX_ARGV_ITEM_BYTES:
        raise _too_large(
            f"The argument {name!r} has {size} bytes; argv_item_bytes is {MAX_ARGV_ITEM_BYTES}.",
            Violation(pointer=pointer([name]), keyword="size", message=f"is larger than {MAX_ARGV_ITEM_BYTES} bytes"),
        )


def _refuse_lone_surrogates(texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise _unfit(
                name,
                "surrogate",
                "it has a lone surrogate, which UTF-8 cannot hold",
                "Write the character itself, or both halves of its surrogate pair.",
            ) from None


def _refuse_large(argv: tuple[str, ...], environment: Mapping[str, str]) -> None:
    sizes = [len(item.encode()) + 1 for item in argv]
    if max(sizes, default=0) - 1 > MAX_ARGV_ITEM_BYTES:
        number = sizes.index(max(sizes))
        raise _too_large(
            f"Item {number} of the command line would have {max(sizes) - 1} bytes; "
            f"argv_item_bytes is {MAX_ARGV_ITEM_BYTES}."
        )
    total = sum(sizes) + sum(len(f"{name}={value}".encode()) + 1 for name, value in environment.items())
    if total > MAX_ARGV_BYTES:
        raise _too_large(f"The command line would have {total} bytes; argv_bytes is {MAX_ARGV_BYTES}.")


def _unfit(name: str, keyword: str, reason: str, suggestion: str) -> InvocationError:
    return InvocationError(
        ErrorDetail(
            code=ErrorCode.SCHEMA_VIOLATION,
            message=f"The argument {name!r} cannot be passed on: {reason}.",
            violations=(Violation(pointer=pointer([name]), keyword=keyword, message=f"{reason}."),),
            suggestion=suggestion,
        )
    )


def _too_large(message: str, *violations: Violation) -> InvocationError:
    return InvocationError(
        ErrorDetail(
            code=ErrorCode.PAYLOAD_TOO_LARGE,
            message=message,
            violations=violations or (Violation(pointer="", keyword="size", message=message),),
            suggestion="Send less in the arguments; put large data into an input file and pass its path.",
        )
    )
