"""Rules on `parameters` and `examples`: a closed, described, valid JSON Schema whose examples hold."""

from collections.abc import Iterator
from typing import Any

from executor.catalogue.diagnostic import Finding, Path
from executor.catalogue.manifest import Manifest
from executor.schema.nearest import brief, did_you_mean
from executor.schema.pointer import pointer
from executor.schema.validator import InvalidSchema, Validator, compiled, violations

_ROOT: Path = ("parameters",)
_ONE = ("items", "additionalProperties", "unevaluatedItems", "unevaluatedProperties")
_MANY = ("prefixItems", "anyOf", "oneOf")
_NAMED = ("properties", "$defs", "patternProperties")
_SAYS_TYPE = ("type", "enum", "const", "$ref", "$dynamicRef", "anyOf", "oneOf", "allOf")


def schema_findings(manifest: Manifest) -> Iterator[Finding]:
    schema = manifest.parameters
    try:
        validator = compiled(schema)
    except InvalidSchema as error:
        for path, message in error.problems:
            yield Finding(path=(*_ROOT, *path), rule="invalid-schema", message=message)
        return
    if schema.get("type") != "object":
        message = "the arguments of a tool are an object: `type: object`"
        yield Finding(path=_ROOT, rule="not-an-object", message=message, at_key=True)
    for path, subschema in _subschemas(schema, _ROOT):
        yield from _object_findings(path, subschema)
    yield from _default_findings(schema, validator)
    yield from _example_findings(manifest, validator)


def _subschemas(schema: Any, path: Path) -> Iterator[tuple[Path, dict[str, Any]]]:  # noqa: ANN401
    """The schemas that values must meet; not those of `not`, `if` and `allOf`, which only add conditions."""
    if not isinstance(schema, dict):
        return
    yield path, schema
    for key in _ONE:
        yield from _subschemas(schema.get(key), (*path, key))
    for key in _MANY:
        for index, item in enumerate(schema.get(key, ())):
            yield from _subschemas(item, (*path, key, index))
    for key in _NAMED:
        for name, item in schema.get(key, {}).items():
            yield from _subschemas(item, (*path, key, name))


def _object_findings(path: Path, schema: dict[str, Any]) -> Iterator[Finding]:
    properties = schema.get("properties", {})
    if _is_open(schema, root=path == _ROOT):
        message = "an object must be closed: `additionalProperties: false`, or a model's slip goes unseen"
        yield Finding(path=path, rule="open-object", message=message, at_key=True)
    for index, name in enumerate(schema.get("required", ()) if "type" in schema or properties else ()):
        if name not in properties:
            guess = did_you_mean(name, properties)
            message = f"`required` names `{brief(name, 80)}`, which is no property{'; ' + guess if guess else ''}"
            yield Finding(path=(*path, "required", index), rule="required-unknown", message=message)
    for name, subschema in properties.items():
        yield from _parameter_findings((*path, "properties", name), name, subschema)


def _parameter_findings(path: Path, name: str, schema: Any) -> Iterator[Finding]:  # noqa: ANN401
    declared = schema if isinstance(schema, dict) else {}
    description = declared.get("description", "")
    if not isinstance(description, str) or not description.strip():
        message = f"the parameter `{brief(name, 80)}` has no description"
        yield Finding(path=path, rule="parameter-description", message=message, at_key=True)
    if not any(key in declared for key in _SAYS_TYPE):
        message = f"the parameter `{brief(name, 80)}` has no type"
        yield Finding(path=path, rule="parameter-type", message=message, at_key=True)


def _is_open(schema: dict[str, Any], *, root: bool) -> bool:
    types = schema.get("type", ())
    if "object" not in ([types] if isinstance(types, str) else types) and "properties" not in schema:
        return False
    rest = [schema.get("additionalProperties"), schema.get("unevaluatedProperties")]
    typed_map = any(isinstance(r, dict) and any(key in r for key in _SAYS_TYPE) for r in rest)
    return not (any(r is False for r in rest) or (typed_map and not root))


def _default_findings(schema: dict[str, Any], validator: Validator) -> Iterator[Finding]:
    """A default is put in without another look, so it must hold by itself."""
    for name, subschema in schema.get("properties", {}).items():
        if isinstance(subschema, dict) and "default" in subschema:
            own = pointer([name])
            for violation in violations(validator, schema, {name: subschema["default"]}):
                if violation.pointer == own or violation.pointer.startswith(f"{own}/"):
                    path = (*_ROOT, "properties", name, "default")
                    yield Finding(path=path, rule="default-invalid", message=violation.message)


def _example_findings(manifest: Manifest, validator: Validator) -> Iterator[Finding]:
    for index, example in enumerate(manifest.examples):
        for violation in violations(validator, manifest.parameters, example.arguments):
            path: Path = ("examples", index, "arguments", *_steps(violation.pointer, example.arguments))
            message = f"the example does not validate: {violation.message}"
            yield Finding(path=path, rule="example-invalid", message=message)


def _steps(at: str, value: Any) -> Path:  # noqa: ANN401
    """The path that a JSON Pointer stands for in `value`, as far as it exists."""
    path: Path = ()
    for part in at.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            path, value = (*path, int(name)), value[int(name)]
        elif isinstance(value, dict) and name in value:
            path, value = (*path, name), value[name]
        else:
            break
    return path
