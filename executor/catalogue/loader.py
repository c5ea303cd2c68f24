"""Manifest files to tools, with everything that the lint says about them. Reads files; decides nothing about calls."""

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import chain
from pathlib import Path

from executor.catalogue import document
from executor.catalogue.diagnostic import Diagnostic, Finding, Severity
from executor.catalogue.document import Document, Mark
from executor.catalogue.manifest import Manifest, shaped, tool_of
from executor.catalogue.rules_policy import policy_findings, prose_findings
from executor.catalogue.rules_schema import schema_findings
from executor.catalogue.rules_template import template_findings
from executor.model.tool import Tool

_SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class Source:
    """One manifest file as it was read."""

    name: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Loaded:
    """A tool, and the file that declares it."""

    tool: Tool
    file: str
    mark: Mark


def load_all(
    places: Iterable[Path], default_image: str, *, builtin: bool
) -> tuple[tuple[Tool, ...], tuple[Diagnostic, ...]]:
    """Every tool that can be made, and every diagnostic; with an error among them the tools are not to be used.

    A place is a directory, whose own *.yaml and *.yml files are read, or one such file.
    """
    sources: list[Source] = list(_builtin_sources()) if builtin else []
    diagnostics: list[Diagnostic] = []
    for place in places:
        found, said = _sources(place)
        sources.extend(found)
        diagnostics.extend(said)
    loaded: list[Loaded] = []
    for source in sources:
        one, said = load_one(source, default_image)
        loaded.extend([one] if one else [])
        diagnostics.extend(said)
    diagnostics.extend(_clashes(loaded))
    return tuple(one.tool for one in _distinct(loaded)), tuple(diagnostics)


def load_one(source: Source, default_image: str) -> tuple[Loaded | None, tuple[Diagnostic, ...]]:
    """The tool of one file, where it has no error, and what the lint says about it."""
    try:
        read = document.read(source.content)
    except document.Unreadable as error:
        return None, (_diagnostic(source.name, error.mark, error.rule, error.message),)
    manifest = shaped(read.value)
    findings = tuple(_findings(manifest)) if isinstance(manifest, Manifest) else manifest
    said = tuple(sorted((_located(source.name, read, f) for f in findings), key=lambda d: (d.line, d.column, d.rule)))
    if not isinstance(manifest, Manifest) or any(d.severity is Severity.ERROR for d in said):
        return None, said
    loaded = Loaded(tool_of(manifest, default_image), source.name, read.locate(("name",), at_key=True))
    return loaded, said


def _findings(manifest: Manifest) -> Iterator[Finding]:
    rules = (policy_findings, prose_findings, schema_findings, template_findings)
    return chain.from_iterable(rule(manifest) for rule in rules)


def _builtin_sources() -> Iterator[Source]:
    directory = resources.files("executor.catalogue") / "builtin"
    for entry in sorted(directory.iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(_SUFFIXES):
            yield Source(f"builtin/{entry.name}", entry.read_bytes())


def _sources(place: Path) -> tuple[Sequence[Source], Sequence[Diagnostic]]:
    try:
        files = sorted(f for f in place.iterdir() if f.suffix in _SUFFIXES) if place.is_dir() else [place]
        sources = [Source(str(f), _content(f)) for f in files]
    except OSError as error:
        message = f"cannot be read: {error.strerror}"
        return [], [_diagnostic(str(error.filename or place), Mark(), "unreadable", message)]
    if not sources:
        message = "the directory holds no manifest (*.yaml, *.yml)"
        return [], [_diagnostic(str(place), Mark(), "no-manifest", message, Severity.WARNING)]
    return sources, []


def _content(file: Path) -> bytes:
    """At most what tells that it is too much; and of a FIFO or a device nothing, because they may never end."""
    fd = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(file))
        with os.fdopen(fd, "rb", closefd=False) as opened:
            return opened.read(document.MAX_BYTES + 1)
    finally:
        os.close(fd)


def _clashes(loaded: Sequence[Loaded]) -> Iterator[Diagnostic]:
    first: dict[tuple[str, str], Loaded] = {}
    for one in loaded:
        before = first.setdefault((one.tool.name, one.tool.version), one)
        if before is one:
            continue
        name = f"`{one.tool.name}` {one.tool.version}"
        if before.tool.digest == one.tool.digest:
            message = f"{name} is declared here again, exactly as in {before.file}"
            yield _diagnostic(one.file, one.mark, "declared-twice", message, Severity.WARNING)
        else:
            message = f"{name} is declared differently in {before.file}: give this one another version"
            yield _diagnostic(one.file, one.mark, "version-reused", message)


def _distinct(loaded: Sequence[Loaded]) -> Iterable[Loaded]:
    return {(one.tool.name, one.tool.version): one for one in loaded}.values()


def _located(file: str, read: Document, finding: Finding) -> Diagnostic:
    mark = read.locate(finding.path, at_key=finding.at_key)
    return _diagnostic(file, mark, finding.rule, finding.message, finding.severity)


def _diagnostic(file: str, mark: Mark, rule: str, message: str, severity: Severity = Severity.ERROR) -> Diagnostic:
    return Diagnostic(file=file, line=mark.line, column=mark.column, severity=severity, rule=rule, message=message)
