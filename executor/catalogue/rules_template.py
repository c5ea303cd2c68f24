"""Rules on templates: an argument must never become an option, a program, a program's text or another path."""

from collections.abc import Iterator
from itertools import chain
from pathlib import PurePosixPath

from executor.catalogue.diagnostic import Finding, Path, Severity
from executor.catalogue.manifest import CommandManifest, Manifest
from executor.catalogue.template import Placeholder, near_misses, parts, placeholders
from executor.schema.nearest import brief, did_you_mean, listed
from executor.schema.paths import parents, path_problem

_TAKE_CODE = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh", "busybox", "perl", "ruby", "node", "php", "lua"})
_CODE_OPTIONS = ("-c", "-e", "-p", "--eval", "--print", "-pe", "-ne", "-lc", "-ec")


def template_findings(manifest: Manifest) -> Iterator[Finding]:
    command = manifest.command
    if command is None:
        return
    known = _parameters(manifest)
    for path, template in _templates(command):
        yield from _placeholder_findings(path, template, known)
    yield from _unused_findings(command, known)
    yield from _argv_findings(command)
    yield from _file_findings(command)
    yield from _environment_findings(command)


def _parameters(manifest: Manifest) -> tuple[str, ...]:
    properties = manifest.parameters.get("properties", {})
    return tuple(properties) if isinstance(properties, dict) else ()


def _templates(command: CommandManifest) -> Iterator[tuple[Path, str]]:
    for index, item in enumerate(command.argv):
        yield ("command", "argv", index), item
    if command.stdin is not None:
        yield ("command", "stdin"), command.stdin
    for name, content in command.files.items():
        yield ("command", "files", name), content


def _placeholder_findings(path: Path, template: str, known: tuple[str, ...]) -> Iterator[Finding]:
    for name in placeholders(template):
        if name not in known:
            guess = did_you_mean(name, known)
            message = (
                f"the template names `{brief(name, 80)}`, which is no parameter; "
                f"{guess + ' ' if guess else ''}the parameters are {listed(known)}"
            )
            yield Finding(path=path, rule="template-unknown", message=message)
    for name in near_misses(template):
        if name in known:
            message = f"write {{{{{name}}}}} without white space; as it is, it stays literal text"
            yield Finding(path=path, rule="template-white-space", message=message)


def _unused_findings(command: CommandManifest, known: tuple[str, ...]) -> Iterator[Finding]:
    used = set(chain.from_iterable(placeholders(template) for _, template in _templates(command)))
    for name in known:
        if name not in used:
            message = f"no template uses the parameter `{brief(name, 80)}`"
            path = ("parameters", "properties", name)
            yield Finding(path=path, rule="parameter-unused", message=message, severity=Severity.WARNING, at_key=True)


def _argv_findings(command: CommandManifest) -> Iterator[Finding]:
    ended = False
    for index, item in enumerate(command.argv):
        path = ("command", "argv", index)
        first = next(iter(parts(item)), "")
        if "\0" in item:
            yield Finding(path=path, rule="nul", message="a command line cannot hold a NUL character")
        if index == 0 and (placeholders(item) or not item):
            yield Finding(path=path, rule="template-program", message="the program must be a literal name")
        elif isinstance(first, Placeholder) and not ended:
            message = (
                f"{{{{{first.name}}}}} could be read as an option: put a literal `--` item before it, "
                f"or write `--flag={{{{{first.name}}}}}`"
            )
            yield Finding(path=path, rule="template-option", message=message)
        ended = ended or item == "--"
        if placeholders(item) and _is_code(command.argv, index):
            message = f"{command.argv[0]} would read this item as a program: pass the argument in a file or on stdin"
            yield Finding(path=path, rule="template-code", message=message)


def _is_code(argv: list[str], index: int) -> bool:
    """Whether an interpreter before this item reads it as its program text; also behind `env`, `timeout` and the like.

    Only options may stand between the two: what follows a script's name is the script's own.
    """
    start = index
    while start > 0 and argv[start - 1].startswith("-"):
        start -= 1
    if start == 0 or not _is_interpreter(argv[start - 1]):
        return False
    options = [item for item in argv[start:index] if item != "--"]
    return bool(options and options[-1] in _CODE_OPTIONS) or argv[index].startswith(_CODE_OPTIONS)


def _is_interpreter(item: str) -> bool:
    program = PurePosixPath(item).name
    return program in _TAKE_CODE or program.startswith(("python", "pypy"))


def _file_findings(command: CommandManifest) -> Iterator[Finding]:
    for name in command.files:
        path = ("command", "files", name)
        if problem := path_problem(name):
            message = f"the path {brief(name, 80)!r} {problem}"
            yield Finding(path=path, rule="file-path", message=message, at_key=True)
        elif clash := next((parent for parent in parents(name) if parent in command.files), None):
            message = f"{brief(name, 80)!r} lies below {brief(clash, 80)!r}, which is a file"
            yield Finding(path=path, rule="file-path", message=message, at_key=True)
        if placeholders(name):
            yield Finding(path=path, rule="template-path", message="the path of a file must be literal", at_key=True)


def _environment_findings(command: CommandManifest) -> Iterator[Finding]:
    for name, value in command.environment.items():
        if placeholders(value):
            message = "the environment is literal and takes no arguments: use argv, stdin or a file"
            path = ("command", "environment", name)
            yield Finding(path=path, rule="template-environment", message=message)
