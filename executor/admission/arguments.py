"""Are these arguments what the tool declares? Pure; the first gate of admission.

The pipeline calls `parse` with the arguments exactly as the model wrote them. Whatever is wrong, all of it is told at
once, with pointers and the nearest names, and the arguments are echoed, so that the model mends its call in one turn.
Defaults of the schema are not put in here: a template does that when it is rendered.
"""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from executor.admission.json_strict import Refused
from executor.admission.json_text import read
from executor.admission.suggest import mend_arguments, mend_json
from executor.model.errors import ErrorCode, ErrorDetail, InvocationError, Violation
from executor.model.limits import KIB, MIB
from executor.model.tool import Tool
from executor.schema.nearest import brief
from executor.schema.validator import Validator, compiled, violations

MAX_ARGUMENTS_BYTES = MIB
MAX_DEPTH = 64
MAX_ECHO_BYTES = 2 * KIB
_MAX_COMPILED = 512

_compiled: OrderedDict[str, tuple[Mapping[str, Any], Validator]] = OrderedDict()
"""Tool digest -> its schema and validator. Compiling takes a hundred times as long as validating."""


def parse(raw: str, tool: Tool, *, max_bytes: int = MAX_ARGUMENTS_BYTES, max_depth: int = MAX_DEPTH) -> dict[str, Any]:
    """The arguments, valid for the tool; an empty text means none.

    Raises InvocationError: PAYLOAD_TOO_LARGE, INVALID_JSON or SCHEMA_VIOLATION. Nothing else is
    raised for anything that `raw` may be.
    """
    _refuse_large(raw, max_bytes)
    value = _object(raw, tool, max_depth)
    found = violations(_validator(tool), tool.parameters, value)
    if found:
        raise InvocationError(
            ErrorDetail(
                code=ErrorCode.SCHEMA_VIOLATION,
                message=f"The arguments of `{tool.name}` do not fit its schema: {_summary(found)}",
                violations=found,
                suggestion=mend_arguments(tool, found),
            )
        )
    return value


def echo(raw: str) -> str:
    """The arguments as a caller may see them again: bounded, and valid UTF-8."""
    text = raw.encode("utf-8", "replace").decode()
    size, limit = len(text.encode()), MAX_ECHO_BYTES
    if size <= limit:
        return text
    encoded = text.encode()
    half = limit // 2
    head, tail = encoded[:half].decode(errors="ignore"), encoded[-half:].decode(errors="ignore")
    return f"{head}... ({size} bytes in all) ...{tail}"


def _refuse_large(raw: str, max_bytes: int) -> None:
    size = len(raw) if len(raw) > max_bytes else len(raw.encode("utf-8", "surrogatepass"))
    if size <= max_bytes:
        return
    message = f"The arguments have {size} bytes or more; arguments_bytes is {max_bytes}."
    raise InvocationError(
        ErrorDetail(
            code=ErrorCode.PAYLOAD_TOO_LARGE,
            message=message,
            violations=(Violation(pointer="", keyword="size", message=message),),
            suggestion="Send less in the arguments; put large data into an input file and pass its path.",
        )
    )


def _object(raw: str, tool: Tool, max_depth: int) -> dict[str, Any]:
    if not raw.strip():
        return {}
    try:
        value = read(raw, max_depth)
    except Refused as refused:
        raise _invalid_json(tool, refused.violations) from None
    if not isinstance(value, dict):
        message = f"The arguments must be a JSON object, not {_KINDS[type(value)]}."
        raise _invalid_json(tool, (Violation(pointer="", keyword="type", message=message),))
    return value


_KINDS: Mapping[type, str] = {
    list: "an array",
    str: "a string",
    int: "a number",
    float: "a number",
    bool: "a boolean",
    type(None): "null",
}


def _invalid_json(tool: Tool, found: tuple[Violation, ...]) -> InvocationError:
    detail = ErrorDetail(
        code=ErrorCode.INVALID_JSON,
        message=f"The arguments of `{tool.name}` are not valid JSON: {_summary(found)}",
        violations=found,
        suggestion=mend_json(tool),
    )
    return InvocationError(detail)


def _summary(found: tuple[Violation, ...]) -> str:
    first = found[0]
    where = f"{brief(first.pointer, 100)}: " if first.pointer else ""
    more = f" ({len(found) - 1} more below.)" if len(found) > 1 else ""
    return f"{where}{first.message}{more}"


def _validator(tool: Tool) -> Validator:
    """Compiled once for a digest. The schema is compared too: a tool made by hand may have no digest."""
    schema, validator = _compiled.get(tool.digest, (None, None))
    if validator is None or schema is not tool.parameters:
        validator = compiled(tool.parameters)
        _compiled[tool.digest] = (tool.parameters, validator)
        while len(_compiled) > _MAX_COMPILED:
            _compiled.popitem(last=False)
    return validator
