"""The shape of a manifest, and the tool that it declares. Whether the tool is a good one is for the rules."""

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import semver
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from executor.catalogue.diagnostic import Finding, Path
from executor.model.limits import Limits
from executor.model.tool import Command, DeclaredExit, Effect, Example, OutputExcess, Policy, Tool
from executor.schema.canonical import canonical_json
from executor.schema.nearest import brief, did_you_mean, listed

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
MAX_ENVIRONMENT = 256
_VERSION_MESSAGE = 'a version must be a semantic one in quotes, such as "1.0.0"'


def _name(value: str) -> str:
    if not NAME.fullmatch(value):
        raise PydanticCustomError("tool-name", "a tool name must match ^[A-Za-z_][A-Za-z0-9_-]{0,63}$")
    return value


def _version(value: str) -> str:
    if not semver.Version.is_valid(value):
        raise PydanticCustomError("tool-version", _VERSION_MESSAGE)
    return value


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class CommandManifest(_Strict):
    argv: list[str] = Field(min_length=1, max_length=4096)
    stdin: str | None = None
    files: dict[str, str] = {}
    environment: dict[str, str] = Field(default={}, max_length=MAX_ENVIRONMENT)


class ExampleManifest(_Strict):
    arguments: dict[str, Any]
    description: str = ""


class ExitManifest(_Strict):
    message: str = Field(min_length=1)
    suggestion: str | None = None


class Manifest(_Strict):
    name: Annotated[str, AfterValidator(_name)]
    version: Annotated[str, AfterValidator(_version)]
    description: str = Field(min_length=1)
    parameters: dict[str, Any]
    effect: Literal["read_only", "mutating", "destructive"]
    examples: list[ExampleManifest] = []
    command: CommandManifest | None = None
    internal: Literal["read_output"] | None = None
    image: str | None = Field(default=None, min_length=1)
    limits: dict[str, Any] = {}
    network: str = "none"
    on_output_excess: Literal["kill", "cut"] = "kill"
    exit_codes: dict[str, ExitManifest] = {}
    concurrency: int = Field(default=16, ge=1, le=100_000)
    idempotent: bool = False


_SHAPES: Mapping[str, type[_Strict]] = {
    "command": CommandManifest,
    "examples": ExampleManifest,
    "exit_codes": ExitManifest,
}


def shaped(value: object) -> Manifest | tuple[Finding, ...]:
    """The manifest that a document holds, or why it holds none."""
    if not isinstance(value, dict):
        return (Finding(path=(), rule="wrong-type", message="a manifest must be a mapping"),)
    try:
        return Manifest.model_validate(value)
    except ValidationError as error:
        return tuple(_findings(error))


def tool_of(manifest: Manifest, default_image: str) -> Tool:
    """The tool of a manifest that no rule found an error in."""
    values: dict[str, Any] = {
        "name": manifest.name,
        "version": manifest.version,
        "description": manifest.description.strip(),
        "parameters": manifest.parameters,
        "effect": Effect(manifest.effect),
        "policy": Policy(
            image=manifest.image or default_image,
            limits=Limits(**manifest.limits),
            network=manifest.network,
            on_output_excess=OutputExcess(manifest.on_output_excess),
        ),
        "command": _command(manifest.command),
        "internal": manifest.internal,
        "examples": tuple(Example(arguments=e.arguments, description=e.description) for e in manifest.examples),
        "exit_codes": {
            int(code): DeclaredExit(message=exit_.message, suggestion=exit_.suggestion)
            for code, exit_ in manifest.exit_codes.items()
        },
        "concurrency": manifest.concurrency,
        "idempotent": manifest.idempotent,
    }
    return Tool(**values, digest=digest(Tool(**values)))


def digest(tool: Tool) -> str:
    """`sha256:<hex>` of the whole effective manifest, with the image and the limits that hold."""
    policy, command = tool.policy, tool.command
    effective = {
        "name": tool.name,
        "version": tool.version,
        "description": tool.description,
        "parameters": tool.parameters,
        "effect": tool.effect,
        "image": policy.image,
        "limits": {name: getattr(policy.limits, name) for name in Limits.__dataclass_fields__},
        "network": policy.network,
        "on_output_excess": policy.on_output_excess,
        "command": command
        and {
            "argv": command.argv,
            "stdin": command.stdin,
            "files": dict(command.files),
            "environment": dict(command.environment),
        },
        "internal": tool.internal,
        "examples": [{"arguments": dict(e.arguments), "description": e.description} for e in tool.examples],
        "exit_codes": {
            str(code): {"message": exit_.message, "suggestion": exit_.suggestion}
            for code, exit_ in tool.exit_codes.items()
        },
        "concurrency": tool.concurrency,
        "idempotent": tool.idempotent,
    }
    return "sha256:" + hashlib.sha256(canonical_json(effective).encode()).hexdigest()


def _command(manifest: CommandManifest | None) -> Command | None:
    if manifest is None:
        return None
    return Command(
        argv=tuple(manifest.argv), stdin=manifest.stdin, files=manifest.files, environment=manifest.environment
    )


def _findings(error: ValidationError) -> Iterator[Finding]:
    for item in error.errors(include_url=False, include_context=False, include_input=False):
        path, kind = tuple(item["loc"]), item["type"]
        match kind:
            case "extra_forbidden":
                yield _unknown_key(path)
            case "missing":
                message = f"the key `{path[-1]}` is required and missing"
                yield Finding(path=path[:-1], rule="missing-key", message=message, at_key=True)
            case "string_type" if path == ("version",):
                yield Finding(path=path, rule="tool-version", message=_VERSION_MESSAGE)
            case "tool-name" | "tool-version":
                yield Finding(path=path, rule=kind, message=item["msg"])
            case _:
                yield Finding(path=path, rule="wrong-value", message=f"`{_dotted(path)}`: {item['msg']}")


def _unknown_key(path: Path) -> Finding:
    shape = _SHAPES.get(str(path[0]), Manifest) if len(path) > 1 else Manifest
    known, key = list(shape.model_fields), str(path[-1])
    guess = did_you_mean(key, known)
    message = f"there is no key `{brief(key, 80)}` here; {guess + ' ' if guess else ''}the keys are {listed(known)}"
    return Finding(path=path, rule="unknown-key", message=message, at_key=True)


def _dotted(path: Path) -> str:
    return ".".join(brief(str(step), 80) for step in path)
