"""All tools of a service: load, lint, look up. Which one a caller may use is not decided here."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import semver

from executor.catalogue.diagnostic import Diagnostic, errors, warnings
from executor.catalogue.loader import load_all
from executor.model.errors import ErrorCode, ErrorDetail, InvocationError, Misconfigured
from executor.model.tool import Tool
from executor.schema.nearest import brief, did_you_mean, listed

_MAX_NAME_CHARS = 80


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Tools by name, each name with its versions, the newest first."""

    _tools: Mapping[str, tuple[Tool, ...]]

    @classmethod
    def of(cls, tools: Iterable[Tool]) -> "Catalogue":
        """A catalogue of tools that are already made; name and version are unique."""
        by_name: dict[str, list[Tool]] = {}
        for tool in tools:
            by_name.setdefault(tool.name, []).append(tool)
        newest_first = {name: tuple(sorted(by_name[name], key=_rank, reverse=True)) for name in sorted(by_name)}
        return cls(newest_first)

    def find(self, name: str, version: str | None = None) -> Tool:
        """The tool; without a version its newest, and a prerelease only where there is nothing else.

        Raises InvocationError: UNKNOWN_TOOL or UNKNOWN_VERSION, naming the nearest and what exists.
        """
        tools = self._tools.get(name)
        if tools is None:
            raise self._unknown_tool(name)
        if version is None:
            return tools[0]
        found = next((tool for tool in tools if tool.version == version), None)
        if found is None:
            raise _unknown_version(name, version, self.versions(name))
        return found

    def tools(self) -> tuple[Tool, ...]:
        """The newest version of each tool, sorted by name."""
        return tuple(tools[0] for tools in self._tools.values())

    def versions(self, name: str) -> tuple[str, ...]:
        """Newest first; empty for an unknown tool."""
        return tuple(tool.version for tool in self._tools.get(name, ()))

    def every_version(self) -> tuple[Tool, ...]:
        """All versions of all tools, sorted by name, the newest first."""
        return tuple(tool for tools in self._tools.values() for tool in tools)

    def _unknown_tool(self, name: str) -> InvocationError:
        guess = did_you_mean(name, self._tools)
        return InvocationError(
            ErrorDetail(
                code=ErrorCode.UNKNOWN_TOOL,
                message=f"There is no tool `{_shown(name)}`{'; ' + guess if guess else '.'}",
                suggestion=f"Call one of the tools that exist: {listed(self._tools)}.",
            )
        )


def load(
    directories: Iterable[Path], default_image: str, *, builtin: bool = True
) -> tuple[Catalogue, tuple[Diagnostic, ...]]:
    """The catalogue and its warnings. Raises Misconfigured, which lists every error."""
    tools, diagnostics = load_all(directories, default_image, builtin=builtin)
    if found := errors(diagnostics):
        lines = "\n".join(str(diagnostic) for diagnostic in found)
        raise Misconfigured(f"The catalogue has {len(found)} error{'s' if len(found) > 1 else ''}:\n{lines}")
    return Catalogue.of(tools), warnings(diagnostics)


def lint(places: Iterable[Path], default_image: str, *, builtin: bool = True) -> tuple[Diagnostic, ...]:
    """Everything that there is to say about the manifests of these directories or files; never raises for them."""
    return load_all(places, default_image, builtin=builtin)[1]


def _rank(tool: Tool) -> tuple[bool, semver.Version, str]:
    version = semver.Version.parse(tool.version)
    return version.prerelease is None, version, tool.version


def _unknown_version(name: str, version: str, known: tuple[str, ...]) -> InvocationError:
    return InvocationError(
        ErrorDetail(
            code=ErrorCode.UNKNOWN_VERSION,
            message=f"The tool `{name}` has no version `{_shown(version)}`.",
            suggestion=f"Leave the version out for the newest, or ask for one of: {listed(known)}.",
        )
    )


def _shown(name: str) -> str:
    """A caller's text as a message may repeat it: bounded, and printable."""
    return brief(name, _MAX_NAME_CHARS).encode("utf-8", "replace").decode()
