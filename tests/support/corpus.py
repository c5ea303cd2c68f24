"""Small deterministic Python programs, to be run in two ways whose ends are compared. They stand in
tests/support/programs, a file for each family.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

MAIN = "main.py"
_PROGRAMS = Path(__file__).parent / "programs"
_ADDRESS = rb"(?<= at )0x[0-9a-f]+"


@dataclass(frozen=True, kw_only=True)
class Program:
    name: str
    """`family/what_it_shows`."""
    source: bytes
    """Content of main.py, which is run as `python3 main.py ARGUMENTS` in a directory of its own."""
    stdin: bytes = b""
    arguments: tuple[str, ...] = ()
    files: dict[str, bytes] = field(default_factory=dict)
    """Path -> content, beside main.py."""
    needs: frozenset[str] = frozenset()
    """A module, such as `numpy`; the first version of Python, such as `3.11`; `semaphores` below /dev/shm."""
    status: int = 0
    """What it is known to end with: an exit code, or the negated number of a signal."""
    masked: str = ""
    """Regular expression of what differs from run to run and is left out of a comparison."""


@dataclass(frozen=True)
class Ended:
    stdout: bytes
    stderr: bytes
    status: int


def load() -> list[Program]:
    """Raises ValueError where two have one name."""
    programs = [_program(path.stem, entry) for path in sorted(_PROGRAMS.glob("*.yaml")) for entry in _entries(path)]
    names = [program.name for program in programs]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"{_PROGRAMS}: two programs are named {', '.join(sorted(twice))}")
    return programs


def comparable(ended: Ended, program: Program) -> Ended:
    """Without addresses of objects and what the program masks; each is replaced by `...`."""
    varying = re.compile(_ADDRESS + (b"|" + program.masked.encode() if program.masked else b""))
    return Ended(varying.sub(b"...", ended.stdout), varying.sub(b"...", ended.stderr), ended.status)


def _entries(path: Path) -> list[dict[str, Any]]:
    return yaml.load(path.read_bytes(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - safe, and faster


def _program(family: str, entry: dict[str, Any]) -> Program:
    values = entry | {"name": f"{family}/{entry['name']}", "source": _bytes(entry["source"])}
    values["stdin"] = _bytes(entry.get("stdin", ""))
    values["arguments"] = tuple(entry.get("arguments", ()))
    values["files"] = {path: _bytes(content) for path, content in entry.get("files", {}).items()}
    values["needs"] = frozenset(entry.get("needs", ()))
    return Program(**values)


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode()
