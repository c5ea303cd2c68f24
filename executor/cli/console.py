"""The two streams of the command line. stdout is for what was asked for; everything else goes to stderr.

rich is loaded only for a terminal, which makes every other start faster.
"""

import io
import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import TextIO

from executor.cli.render import Line


def prepare() -> None:
    """Both streams can be written afterwards, whatever the shell has left of them."""
    _replace_closed()
    # A name that the locale cannot show is escaped; it must not end the program.
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure:
            reconfigure(errors="backslashreplace")


def _replace_closed() -> None:
    """A descriptor that the shell has closed would be taken by the next file or socket, and be written to.

    Of a closed stdin or stdout every use fails with EBADF, as in any other program; a closed stderr swallows.
    """
    sys.stdin = sys.stdin or _null(os.O_WRONLY, "r")
    sys.stdout = sys.stdout or _null(os.O_RDONLY, "w")
    sys.stderr = sys.stderr or _null(os.O_WRONLY, "w")


def _null(access: int, mode: str) -> TextIO:
    """On the lowest free descriptor, which is the closed one where these are opened in order."""
    fd = os.open(os.devnull, access)
    os.set_inheritable(fd, True)  # noqa: FBT003 - as the standard streams are
    # Without a buffer, or what could not be written would be tried once more when the interpreter ends.
    return io.TextIOWrapper(io.FileIO(fd, mode), encoding="utf-8", write_through=True)


def out(text: str) -> None:
    """`text` as it is; on a terminal the last line is ended. Nothing is no failure of a stream that is closed."""
    if not text:
        return
    sys.stdout.write(text)
    if not text.endswith("\n") and sys.stdout.isatty():
        sys.stdout.write("\n")
    sys.stdout.flush()


def out_json(value: object) -> None:
    out(json.dumps(value, indent=2, ensure_ascii=False, default=dict) + "\n")


def out_bytes(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.flush()


def note(text: str) -> None:
    """On stderr, as it is."""
    sys.stderr.write(text if not text or text.endswith("\n") else f"{text}\n")
    sys.stderr.flush()


def fault(message: str) -> None:
    note(f"executor: {message}")


def tell(lines: Iterable[Line]) -> None:
    """Labels and texts on stderr."""
    if not sys.stderr.isatty():
        note("".join(f"{line.label}: {line.text}\n" for line in lines))
        return
    from rich.console import Console  # noqa: PLC0415 - see above
    from rich.text import Text  # noqa: PLC0415

    console = Console(stderr=True, highlight=False)
    for line in lines:
        console.print(Text.assemble((line.label, f"bold {line.style}".strip()), ": ", line.text), soft_wrap=True)


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """On stdout: ruled on a terminal, tab-separated in a pipe."""
    if not sys.stdout.isatty():
        out("".join("\t".join(row) + "\n" for row in (headings, *rows)))
        return
    from rich.console import Console  # noqa: PLC0415 - see above
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    grid = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        grid.add_column(heading, overflow="fold")
    for row in rows:
        grid.add_row(*map(Text, row))
    Console(highlight=False).print(grid)
