"""The commands and their options; each hands its words to the module of its name. The one place where an error becomes
an exit status: bad input ends in one line on stderr, never in a traceback.

The commands import their modules when they run, so that `--help` and a misspelt option answer at once; there is no
cycle behind it.
"""

import asyncio
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from executor.cli import console
from executor.cli.exits import Exit, Misuse
from executor.model.address import parse_address
from executor.model.errors import InvocationError, Misconfigured, ServiceError

if TYPE_CHECKING:
    from executor.app import MakeBackend
    from executor.bench.peer import Join
    from executor.settings import Settings

# ruff: noqa: PLC0415 - see above
# ruff: noqa: PLR0913, FBT002 - options of a command


class Format(StrEnum):
    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Wiring:
    """What the embedder of the command line may replace."""

    make_backend: "MakeBackend"
    peers: "Sequence[Join]" = ()
    """More of them for the benchmark."""


commands = typer.Typer(
    help="Run a language model's tool calls, each in a throwaway sandbox.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
tools = typer.Typer(help="The tools of this host.", no_args_is_help=True, rich_markup_mode=None)
commands.add_typer(tools, name="tools")

Config = Annotated[Path | None, typer.Option(help="Settings file (YAML); otherwise EXECUTOR_CONFIG names it.")]
Catalogue = Annotated[
    list[str] | None, typer.Option(metavar="DIR", help="Directory of manifests, beside the built-in tools. Repeatable.")
]
StateDir = Annotated[Path | None, typer.Option(help="Where outputs and sandboxes are kept.")]
Degraded = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help="Facility that this host may lack (see doctor). Repeatable.")
]
Address = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Server: unix:/path or HOST:PORT; without it, here.")
]
Output = Annotated[Format, typer.Option(help="How to print it.")]


_INTERRUPTED = 130
"""What typer makes of KeyboardInterrupt, which comes where no call runs yet."""


def start(arguments: Sequence[str] | None = None, wiring: Wiring | None = None) -> int:
    """The exit status."""
    console.prepare()
    try:
        status = commands(
            args=None if arguments is None else list(arguments),
            prog_name="executor",
            standalone_mode=False,
            obj=wiring,
        )
    except (Misuse, typer.TyperException) as error:
        return _failed(error.format_message() if isinstance(error, typer.TyperException) else str(error), Exit.MISUSE)
    except (ServiceError, InvocationError) as error:
        return _failed(str(error), Exit.UNAVAILABLE)
    except typer.Abort:
        return _failed("interrupted", Exit.NOT_OK)
    except OSError as error:  # such as a full disk behind stdout; of a closed pipe typer makes a silent exit
        _forget_stdout()
        return _failed(f"{error.filename or 'output'}: {error.strerror}", Exit.UNAVAILABLE)
    if status == _INTERRUPTED:
        return _failed("interrupted", Exit.NOT_OK)
    return int(status or 0)


def _forget_stdout() -> None:
    """What is still buffered must not fail once more when the interpreter ends."""
    if sys.stdout is sys.__stdout__ and sys.stdout is not None:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


def _failed(message: str, status: Exit) -> int:
    if message.startswith("Usage:"):  # the help of a command without its subcommand
        console.note(message)
    else:
        console.fault(message)
    return status


def _version(wanted: bool) -> None:  # noqa: FBT001 - a callback of typer
    if wanted:
        console.out(f"executor {metadata.version('executor')}\n")
        raise typer.Exit


@commands.callback()
def _common(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None:
    del version


@commands.command()
def run(
    context: typer.Context,
    *,
    tool: Annotated[str, typer.Argument(help="Name of the tool.")],
    argument: Annotated[
        list[str] | None,
        typer.Option("-a", metavar="NAME=VALUE", help="Argument; @FILE reads the value, @- from stdin, @@ is one @."),
    ] = None,
    args: Annotated[str | None, typer.Option(metavar="JSON", help="All arguments, passed on as they are.")] = None,
    args_file: Annotated[str | None, typer.Option(metavar="FILE", help="The same from a file; - is stdin.")] = None,
    version: Annotated[str | None, typer.Option(help="Version of the tool; otherwise the newest.")] = None,
    file: Annotated[
        list[str] | None, typer.Option(metavar="PATH[=LOCAL]", help="File to put into the workspace. Repeatable.")
    ] = None,
    collect: Annotated[
        list[str] | None, typer.Option(metavar="GLOB", help="Files to bring back; ** crosses directories. Repeatable.")
    ] = None,
    save: Annotated[Path | None, typer.Option(metavar="DIR", help="Write what was brought back to DIR.")] = None,
    limit: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Lower a limit of the tool. Repeatable.")
    ] = None,
    timeout: Annotated[float | None, typer.Option(metavar="SECONDS", help="Deadline of the call.")] = None,
    call_id: Annotated[str | None, typer.Option(metavar="ID", help="Your own id; comes back in the outcome.")] = None,
    trace_id: Annotated[str | None, typer.Option(metavar="ID", help="W3C trace id: 32 hex digits.")] = None,
    address: Address = None,
    output: Output = Format.TEXT,
    config: Config = None,
    catalogue: Catalogue = None,
    state_dir: StateDir = None,
    allow_degraded: Degraded = None,
) -> int:
    """Run one tool call; exit 0 where it completed with exit code 0, 1 for any other outcome."""
    from executor.cli import run as command
    from executor.cli.target import open_target

    call = command.Call(
        tool=tool,
        version=version,
        arguments=tuple(argument or ()),
        args=args,
        args_file=args_file,
        files=tuple(file or ()),
        collect=tuple(collect or ()),
        limits=tuple(limit or ()),
        timeout_seconds=timeout,
        call_id=call_id,
        trace_id=trace_id,
        save=save,
        as_json=output is Format.JSON,
    )
    local = {"catalogue": catalogue, "state_dir": state_dir, "allow_degraded": allow_degraded}
    prepared = command.prepare(call)
    settings = _settings_unless(address, config, **local)
    make_backend = _make_backend(context)
    return asyncio.run(command.run(call, prepared, lambda: open_target(settings, address, make_backend)))


@commands.command()
def serve(
    context: typer.Context,
    *,
    config: Config = None,
    listen: Annotated[
        list[str] | None,
        typer.Option(metavar="ADDRESS", help="unix:/path or HOST:PORT; otherwise your own Unix socket. Repeatable."),
    ] = None,
    catalogue: Catalogue = None,
    state_dir: StateDir = None,
    allow_degraded: Degraded = None,
) -> int:
    """Serve tool calls over gRPC until SIGTERM, SIGHUP or Ctrl-C, which drains; a second one ends at once."""
    from executor.cli.serve import serve as command

    settings = _settings(config, listen=listen, catalogue=catalogue, state_dir=state_dir, allow_degraded=allow_degraded)
    return asyncio.run(command(settings, _make_backend(context)))


@tools.command("list")
def tools_list(
    context: typer.Context,
    *,
    address: Address = None,
    output: Output = Format.TEXT,
    config: Config = None,
    catalogue: Catalogue = None,
    state_dir: StateDir = None,
    allow_degraded: Degraded = None,
) -> int:
    """The newest version of each tool, and why one cannot run here."""
    from executor.cli.tools import list_tools

    local = {"catalogue": catalogue, "state_dir": state_dir, "allow_degraded": allow_degraded}
    settings = _settings_unless(address, config, **local)
    return asyncio.run(list_tools(settings, address, _make_backend(context), as_json=output is Format.JSON))


@tools.command("show")
def tools_show(
    context: typer.Context,
    *,
    name: Annotated[str, typer.Argument(help="Name of the tool.")],
    version: Annotated[str | None, typer.Option(help="Otherwise the newest.")] = None,
    address: Address = None,
    output: Output = Format.TEXT,
    config: Config = None,
    catalogue: Catalogue = None,
    state_dir: StateDir = None,
    allow_degraded: Degraded = None,
) -> int:
    """One tool: description, parameters, limits."""
    from executor.cli.tools import show_tool

    local = {"catalogue": catalogue, "state_dir": state_dir, "allow_degraded": allow_degraded}
    settings = _settings_unless(address, config, **local)
    as_json = output is Format.JSON
    return asyncio.run(show_tool((name, version), settings, address, _make_backend(context), as_json=as_json))


@tools.command("lint")
def tools_lint(
    *,
    places: Annotated[list[Path] | None, typer.Argument(metavar="DIR|FILE...", help="Otherwise the settings'.")] = None,
    output: Output = Format.TEXT,
    config: Config = None,
) -> int:
    """What is wrong with manifests, by file, line and column; exit 1 where there are errors."""
    from executor.cli.tools import lint

    return lint(places or (), _settings(config), as_json=output is Format.JSON)


@commands.command("output")
def read_output(
    *,
    ref: Annotated[str, typer.Argument(help="From an outcome.")],
    range_: Annotated[str | None, typer.Option("--range", metavar="A:B", help="Bytes from A up to B.")] = None,
    lines: Annotated[str | None, typer.Option(metavar="A:B", help="Lines from A up to B; the first is 0.")] = None,
    grep: Annotated[str | None, typer.Option(metavar="REGEX", help="Lines that match an RE2 expression.")] = None,
    address: Address = None,
    config: Config = None,
    state_dir: StateDir = None,
) -> int:
    """Print the full bytes of an output or artifact, or a part of them."""
    from executor.cli import output as command

    wanted = command.part(range_, lines, grep)
    settings = _settings_unless(address, config, state_dir=state_dir)
    if address is not None:
        return asyncio.run(command.output_there(ref, wanted, address))
    return asyncio.run(command.output_here(ref, wanted, settings))


@commands.command()
def doctor(*, output: Output = Format.TEXT, config: Config = None, state_dir: StateDir = None) -> int:
    """Try each kernel facility; exit 0 only where this host can enforce the defaults in full."""
    from executor.cli.doctor import doctor as command

    return asyncio.run(command(_settings(config, state_dir=state_dir), as_json=output is Format.JSON))


@commands.command()
def demo() -> int:
    """Start a server, run six calls through it, show their outcomes, stop it."""
    from executor.cli.demo import demo as command

    return asyncio.run(command())


@commands.command()
def bench(
    context: typer.Context,
    *,
    quick: Annotated[
        bool, typer.Option("--quick", help="Less than a minute: fewer samples, and the near peers.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 also where a goal is missed.")] = False,
    seconds: Annotated[
        float | None,
        typer.Option(min=0.1, metavar="SECONDS", help="Measure for about so long; figures of few samples."),
    ] = None,
    output_dir: Annotated[Path, typer.Option(metavar="DIR", help="For bench.json, bench.md and two SVG plots.")] = Path(
        "build"
    ),
    config: Config = None,
) -> int:
    """Measure this service beside the peers that this machine has; exit 1 where a call failed."""
    from executor.bench.run import Choice
    from executor.cli.bench import bench as command

    wiring: Wiring | None = context.obj
    images_dir = _settings(config).images_dir
    choice = Choice(quick=quick, seconds=seconds, images_dir=images_dir, also=wiring.peers if wiring else ())
    return asyncio.run(command(choice, output_dir, strict=strict))


def _settings(config: Path | None, **chosen: Any) -> "Settings":  # noqa: ANN401 - words of the command line
    from executor.settings import load

    return load(config, {name: value or None for name, value in chosen.items()})


def _make_backend(context: typer.Context) -> "MakeBackend":
    from executor.app import native_backend

    wiring: Wiring | None = context.obj
    return wiring.make_backend if wiring else native_backend


def _settings_unless(address: str | None, config: Path | None, **local: Any) -> "Settings":  # noqa: ANN401 - see above
    """A server has its own settings: with an address, none may be given here."""
    given = [f"--{name.replace('_', '-')}" for name, value in {"config": config, **local}.items() if value]
    if address is not None and given:
        raise Misuse(f"{', '.join(given)}: means nothing with --address, the server has its own settings")
    if address is not None:
        try:
            parse_address(address)
        except Misconfigured as error:
            raise Misuse(f"--address: {error}") from None
    return _settings(config, **local)
