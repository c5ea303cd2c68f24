"""`executor tools list|show|lint`: the catalogue as this host would serve it."""

import json
from collections.abc import Sequence
from pathlib import Path

from executor.app import MakeBackend, open_offers
from executor.catalogue import catalogue as catalogues
from executor.catalogue.diagnostic import errors
from executor.cli import console
from executor.cli.exits import Exit, Misuse
from executor.codec import ToolOffer
from executor.codec.walk import plain
from executor.model.errors import InvocationError, NotFound
from executor.settings import Settings

Versions = tuple[str, ...]


async def list_tools(settings: Settings, address: str | None, make_backend: MakeBackend, *, as_json: bool) -> Exit:
    found = await (_offers_here(settings, make_backend) if address is None else _offers_there(address))
    if as_json:
        console.out_json([plain(tool) for tool in found])
    else:
        rows = [(t.name, t.version, t.effect.value, t.image, t.unavailable or "yes") for t in found]
        console.table(("TOOL", "VERSION", "EFFECT", "IMAGE", "AVAILABLE"), rows)
    return Exit.OK


async def show_tool(
    wanted: tuple[str, str | None], settings: Settings, address: str | None, make_backend: MakeBackend, *, as_json: bool
) -> Exit:
    """`wanted`: name and version. Raises Misuse where there is none."""
    work = _offer_here(wanted, settings, make_backend) if address is None else _offer_there(wanted, address)
    tool, versions = await work
    shown = plain(tool) | {"versions": versions}
    if as_json:
        console.out_json(shown)
    else:
        console.out("".join(f"{key}: {_as_text(value)}\n" for key, value in shown.items()))
    return Exit.OK


async def _offers_here(settings: Settings, make_backend: MakeBackend) -> tuple[ToolOffer, ...]:
    async with open_offers(settings, make_backend) as offers:
        return tuple(offers.offer(tool) for tool in offers.catalogue.tools())


async def _offer_here(
    wanted: tuple[str, str | None], settings: Settings, make_backend: MakeBackend
) -> tuple[ToolOffer, Versions]:
    async with open_offers(settings, make_backend) as offers:
        try:
            tool = offers.catalogue.find(*wanted)
        except InvocationError as error:
            raise Misuse(f"{error.detail.message} {error.detail.suggestion}") from None
        return offers.offer(tool), offers.catalogue.versions(tool.name)


async def _offers_there(address: str) -> tuple[ToolOffer, ...]:
    from executor.cli.remote import connect  # noqa: PLC0415 - gRPC takes a third of a second to load

    async with connect(address) as server:
        return await server.offers()


async def _offer_there(wanted: tuple[str, str | None], address: str) -> tuple[ToolOffer, Versions]:
    from executor.cli.remote import connect  # noqa: PLC0415 - see above

    async with connect(address) as server:
        try:
            return await server.offer(*wanted)
        except NotFound as error:
            raise Misuse(str(error)) from None


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
