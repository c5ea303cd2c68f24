"""Sentences that a model can act on: how to mend a call in one turn."""

from collections.abc import Iterator, Mapping
from typing import Any

from executor.model.errors import Violation
from executor.model.tool import Tool
from executor.schema.canonical import canonical_json
from executor.schema.nearest import brief, listed, nearest

_MAX_EXAMPLE_CHARS = 300
_MAX_NAMES = 5


def mend_json(tool: Tool) -> str:
    """After arguments that are no JSON object."""
    example = next(iter(tool.examples), None)
    such_as = f", such as {brief(canonical_json(dict(example.arguments)), _MAX_EXAMPLE_CHARS)}" if example else ""
    return f"Send the arguments of `{tool.name}` as one strict JSON object{such_as}. {_properties(tool.parameters)}"


def mend_arguments(tool: Tool, violations: tuple[Violation, ...]) -> str:
    """After arguments that the schema refuses."""
    steps = list(_steps(tool.parameters, violations))[:_MAX_NAMES]
    first = "; ".join(steps) if steps else "mend what the violations name"
    return f"{first[0].upper()}{first[1:]}; then call `{tool.name}` again. {_properties(tool.parameters)}"


def _steps(schema: Mapping[str, Any], violations: tuple[Violation, ...]) -> Iterator[str]:
    known = schema.get("properties", {})
    for violation in violations:
        where = violation.pointer
        if violation.keyword in ("additionalProperties", "unevaluatedProperties"):
            name = where.rsplit("/", 1)[-1]
            guess = nearest(name, known) if where.count("/") == 1 else None
            yield f"rename `{brief(name, 80)}` to `{guess}`" if guess else f"leave out `{brief(where, 80)}`"
        elif violation.keyword == "required":
            name = violation.message.split("`")[1]
            yield f"add `{brief(name, 80)}`" + (f" at `{brief(where, 80)}`" if where else "")
        elif where:
            yield f"mend `{brief(where, 80)}`"


def _properties(schema: Mapping[str, Any]) -> str:
    required = schema.get("required", ())
    names = list(schema.get("properties", {}))
    optional = [name for name in names if name not in required]
    return f"Required: {listed(required)}; optional: {listed(optional)}." if names else "It takes no arguments: {}."
