"""JSON Schema 2020-12 as this service means it: formats are checked, nothing is fetched, every violation is told.

The one place that knows the library. The catalogue checks schemas and examples with it, admission checks arguments.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import jsonschema_rs

from executor.model.errors import Violation
from executor.schema.nearest import MAX_NAME_CHARS, brief, did_you_mean, listed
from executor.schema.paths import path_problem
from executor.schema.pointer import pointer

MAX_VIOLATIONS = 20
MAX_MESSAGE_CHARS = 300
WORKSPACE_PATH = "workspace-path"
"""Format of a string that must name a file below /workspace."""

META_SCHEMA = "https://json-schema.org/draft/2020-12/schema"
_FORMATS = {WORKSPACE_PATH: lambda value: path_problem(value) is None}

Validator = jsonschema_rs.Draft202012Validator


class InvalidSchema(ValueError):
    """`problems` says what is wrong with a schema: where in it, and why."""

    def __init__(self, problems: Iterable[tuple[tuple[str | int, ...], str]]) -> None:
        super().__init__("invalid JSON Schema")
        self.problems = tuple(problems)


def compiled(schema: Mapping[str, Any]) -> Validator:
    """The validator of a schema. Raises InvalidSchema; never touches the network."""
    if problems := tuple(_meta_problems(schema)):
        raise InvalidSchema(problems)
    try:
        return Validator(
            dict(schema),
            formats=_FORMATS,
            validate_formats=True,
            ignore_unknown_formats=False,
            retriever=_refuse,
        )
    except jsonschema_rs.ValidationError as error:
        raise InvalidSchema([(tuple(error.instance_path), brief(error.message, MAX_MESSAGE_CHARS))]) from error


def violations(validator: Validator, schema: Mapping[str, Any], value: object) -> tuple[Violation, ...]:
    """Everything that is wrong with `value`, at most MAX_VIOLATIONS; the last then says that there is more."""
    found = tuple(islice(_violations(validator, schema, value), MAX_VIOLATIONS + 1))
    if len(found) <= MAX_VIOLATIONS:
        return found
    more = Violation(pointer="", keyword="more", message=f"There are more than {MAX_VIOLATIONS - 1} violations.")
    return (*found[: MAX_VIOLATIONS - 1], more)


def _refuse(uri: str) -> Any:  # noqa: ANN401 - the library's Protocol
    raise ValueError(f"a remote reference is not allowed: {uri}")


def _meta_problems(schema: Mapping[str, Any]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    dialect = schema.get("$schema", META_SCHEMA)
    if dialect != META_SCHEMA:
        yield ("$schema",), f"the dialect must be {META_SCHEMA}, or left out"
        return
    meta = Validator({"$ref": META_SCHEMA}, retriever=_refuse)
    for error in meta.iter_errors(dict(schema)):
        yield tuple(error.instance_path), brief(error.message, MAX_MESSAGE_CHARS)


def _violations(validator: Validator, schema: Mapping[str, Any], value: object) -> Iterator[Violation]:
    for error in validator.iter_errors(value):
        kind = error.kind
        match kind:
            case (
                jsonschema_rs.ValidationErrorKind.AdditionalProperties()
                | jsonschema_rs.ValidationErrorKind.UnevaluatedProperties()
            ):
                known = _properties(schema, error.schema_path[:-1])
                for name in kind.unexpected:
                    yield _unknown_property(error.instance_path, kind.name, name, known)
            case _:
                yield Violation(pointer=pointer(error.instance_path), keyword=kind.name, message=_message(error))


def _unknown_property(path: list[str | int], keyword: str, name: str, known: list[str]) -> Violation:
    guess = did_you_mean(name, known)
    message = (
        f"There is no property `{brief(name, MAX_NAME_CHARS)}`{'; ' + guess if guess else '.'}"
        f"{f' The properties are {listed(known)}.' if known else ' No property is allowed here.'}"
    )
    return Violation(pointer=pointer([*path, name]), keyword=keyword, message=message)


def _message(error: jsonschema_rs.ValidationError) -> str:
    match error.kind:
        case jsonschema_rs.ValidationErrorKind.Required(property=name):
            text = f"`{name}` is required and missing."
        case jsonschema_rs.ValidationErrorKind.Format(format=name) if name == WORKSPACE_PATH:
            text = f"The path {brief(str(error.instance), 80)!r} {path_problem(str(error.instance))}."
        case (
            jsonschema_rs.ValidationErrorKind.AnyOf(context=branches)
            | jsonschema_rs.ValidationErrorKind.OneOfNotValid(context=branches)
        ):
            reasons = "; or ".join(brief(branch[0].message, 90) for branch in branches[:5] if branch)
            return brief(f"{brief(error.message, 120)}: {reasons}", 2 * MAX_MESSAGE_CHARS)
        case _:
            text = error.message
    return brief(text, MAX_MESSAGE_CHARS)


def _properties(schema: Mapping[str, Any], path: list[str | int]) -> list[str]:
    """Names of the properties that the subschema at `path` declares."""
    at: Any = schema
    for step in path:
        try:
            at = at[step]
        except (KeyError, IndexError, TypeError):
            return []
    properties = at.get("properties") if isinstance(at, dict) else None
    return list(properties) if isinstance(properties, dict) else []
