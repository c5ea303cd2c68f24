"""Rules on what surrounds a command: limits, network, exit codes, environment, effect; and on the words for a model."""

import re
from collections.abc import Iterator
from math import isfinite
from typing import Any

from executor.catalogue.diagnostic import Finding, Severity
from executor.catalogue.manifest import Manifest
from executor.model.limits import LEAST, LIMIT_NAMES, MOST, Limits
from executor.schema.nearest import brief, did_you_mean, listed

MIN_DESCRIPTION_CHARS = 60
MAX_DESCRIPTION_CHARS = 4096
_WHEN_NOT = re.compile(
    r"\b(?:do not use|don['\u2019]t use|not for|never use|not meant for|instead of this)\b", re.IGNORECASE
)
_EXIT_CODE = re.compile(r"[1-9][0-9]{0,2}")
_LAST_EXIT_CODE = 255
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DEFAULTS = Limits()


def policy_findings(manifest: Manifest) -> Iterator[Finding]:
    if (manifest.command is None) == (manifest.internal is None):
        message = "a manifest has either `command` or `internal`, and only one of them"
        yield Finding(path=(), rule="one-command", message=message)
    if manifest.network != "none":
        message = f"the network {brief(manifest.network, 80)!r} is not available; only `none` is"
        yield Finding(path=("network",), rule="network", message=message)
    for name, value in manifest.limits.items():
        if problem := _limit_problem(name, value):
            yield Finding(path=("limits", name), rule="limit", message=problem)
    for code in manifest.exit_codes:
        if not _EXIT_CODE.fullmatch(code) or int(code) > _LAST_EXIT_CODE:
            message = f"{brief(code, 40)!r} is not an exit code that says no: one of 1 to {_LAST_EXIT_CODE}"
            yield Finding(path=("exit_codes", code), rule="exit-code", message=message, at_key=True)
    yield from _environment_findings(manifest)


def prose_findings(manifest: Manifest) -> Iterator[Finding]:
    text = manifest.description.strip()
    at = ("description",)
    if len(text) < MIN_DESCRIPTION_CHARS:
        message = (
            f"the description is shorter than {MIN_DESCRIPTION_CHARS} characters: say what the tool does and gives"
        )
        yield Finding(path=at, rule="description-short", message=message, severity=Severity.WARNING)
    if len(text) > MAX_DESCRIPTION_CHARS:
        message = f"the description is longer than {MAX_DESCRIPTION_CHARS} characters, and every call pays for it"
        yield Finding(path=at, rule="description-long", message=message, severity=Severity.WARNING)
    if not _WHEN_NOT.search(text):
        message = "the description does not say when not to use the tool: add a sentence with `Do not use ...`"
        yield Finding(path=at, rule="description-when-not", message=message, severity=Severity.WARNING)
    if manifest.effect != "read_only":
        message = (
            f"the effect is `{manifest.effect}`, but the tool is granted nothing outside its sandbox "
            "(no network, no account), so that it is `read_only` by construction"
        )
        yield Finding(path=("effect",), rule="effect-without-means", message=message, severity=Severity.WARNING)


def _limit_problem(name: str, value: Any) -> str | None:  # noqa: ANN401 - anything that YAML holds
    if name not in LIMIT_NAMES:
        guess = did_you_mean(name, LIMIT_NAMES)
        known = f"the limits are {listed(LIMIT_NAMES)}"
        return f"there is no limit `{brief(name, 80)}`; {guess + ' ' if guess else ''}{known}"
    whole = isinstance(getattr(_DEFAULTS, name), int)
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        return f"`{name}` must be a {'whole ' if whole else ''}number"
    if not isfinite(value) or value <= 0:
        return f"`{name}` must be positive and finite; there is no value that means unlimited"
    if value < LEAST.get(name, 0):
        return f"`{name}` must be at least {LEAST[name]}; no sandbox can be made with less"
    if value > MOST[name]:
        return f"`{name}` must be at most {MOST[name]}"
    return None


def _environment_findings(manifest: Manifest) -> Iterator[Finding]:
    environment = manifest.command.environment if manifest.command else {}
    for name, value in environment.items():
        path = ("command", "environment", name)
        if not _VARIABLE.fullmatch(name):
            message = f"{brief(name, 80)!r} is not a name of an environment variable"
            yield Finding(path=path, rule="environment-name", message=message, at_key=True)
        if "\0" in value:
            yield Finding(path=path, rule="nul", message="an environment variable cannot hold a NUL character")
