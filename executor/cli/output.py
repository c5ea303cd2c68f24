"""`executor output`: the bytes behind a ref, or a part of them, as they are."""

from collections.abc import AsyncIterator

from executor.app import open_outputs
from executor.cli import console
from executor.cli.exits import Exit, Misuse
from executor.cli.target import Part, Range
from executor.model.errors import BadRequest
from executor.model.invocation import LOCAL
from executor.settings import Settings
from executor.stores import reading


def part(range_: str | None, lines: str | None, regex: str | None) -> Part:
    """Raises Misuse."""
    if sum(option is not None for option in (range_, lines, regex)) > 1:
        raise Misuse("--range, --lines and --grep exclude each other")
    if regex is not None:
        try:
            reading.compile_expression(regex)
        except BadRequest as error:
            raise Misuse(f"--grep: {error}") from None
    return Part(
        bytes=_range("--range", range_) if range_ is not None else None,
        lines=_range("--lines", lines) if lines is not None else None,
        regex=regex,
    )


async def output_here(ref: str, wanted: Part, settings: Settings) -> Exit:
    """From the state directory, whether or not a server runs on it."""
    async with open_outputs(settings) as outputs:
        start, end = wanted.bytes or (0, None)
        source: AsyncIterator[bytes] = outputs.read(ref, LOCAL.tenant, start, end)
        if wanted.lines is not None:
            source = reading.lines(source, *wanted.lines)
        if wanted.regex is not None:
            source = reading.grep(source, wanted.regex)
        await _write(source)
    return Exit.OK


async def output_there(ref: str, wanted: Part, address: str) -> Exit:
    from executor.cli.remote import connect  # noqa: PLC0415 - gRPC takes a third of a second to load

    async with connect(address) as target:
        await _write(target.read(ref, wanted))
    return Exit.OK


async def _write(source: AsyncIterator[bytes]) -> None:
    async for piece in source:
        console.out_bytes(piece)


def _range(option: str, text: str) -> Range:
    start, colon, end = text.partition(":")
    if not colon or not all(number.isascii() and (number.isdigit() or not number) for number in (start, end)):
        raise Misuse(f"{option} {text}: write A:B, A: or :B; the first is 0, and B is not in it")
    first, last = int(start or 0), int(end) if end else None
    if last is not None and last < first:
        raise Misuse(f"{option} {text}: the end is before the start")
    return first, last
