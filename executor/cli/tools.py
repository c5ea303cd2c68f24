"""`executor tools list|show|lint`: the catalogue as this host would serve it."""

import json
from collections.abc import Sequence
from pathlib import Path

from executor.app import MakeBackend, open_offers
from executor.catalogue import catalogue as catalogues
from executor.catalogue.diagnostic import errors
from executor.cli import console
from executor.cli.exits import Exit, Misuse
from executor.codec.walk import plain
from executor.model.errors import InvocationError
from executor.settings import Settings


async def list_tools(settings: Settings, make_backend: MakeBackend, *, as_json: bool) -> Exit:
    async with open_offers(settings, make_backend) as offers:
        found = [offers.offer(tool) for tool in offers.catalogue.tools()]
    if as_json:
        console.out_json([plain(tool) for tool in found])
    else:
        rows = [(t.name, t.version, t.effect.value, t.image, t.unavailable or "yes") for t in found]
        console.table(("TOOL", "VERSION", "EFFECT", "IMAGE", "AVAILABLE"), rows)
    return Exit.OK


async def show_tool(
    name: str, version: str | None, settings: Settings, make_backend: MakeBackend, *, as_json: bool
) -> Exit:
    async with open_offers(settings, make_backend) as offers:
        try:
            tool = offers.catalogue.find(name, version)
        except InvocationError as error:
            raise Misuse(f"{error.detail.message} {error.detail.suggestion}") from None
        versions = offers.catalogue.versions(name)
        shown = plain(offers.offer(tool)) | {"versions": versions}
    if as_json:
        console.out_json(shown)
    else:
        console.out("".join(f"{key}: {_as_text(value)}\n" for key, value in shown.items()))
    return Exit.OK


def lint(places: Sequence[Path], settings: Settings, *, as_json: bool) -> Exit:
    """The manifests of these directories and files, or of the settings; beside the built-in ones."""
    diagnostics = catalogues.lint(places or settings.catalogue, settings.default_image)
    if as_json:
        console.out_json([{name: getattr(d, name) for name in _DIAGNOSTIC} for d in diagnostics])
    else:
        lines = (f"{d.file}:{d.line}:{d.column}: {d.severity} {d.rule} {d.message}\n" for d in diagnostics)
        console.out("".join(lines))
    return Exit.NOT_OK if errors(diagnostics) else Exit.OK


_DIAGNOSTIC = ("file", "line", "column", "severity", "rule", "message")


def _as_text(value: object) -> str:
    return value.strip() if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=dict)
