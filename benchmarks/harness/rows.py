"""What is run: one line of the tables each, the same program for every peer. To add a row, add it here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from executor.model.invocation import InputFile


class Depth(StrEnum):
    """How much of a row is measured."""

    GOAL = "goal"
    """A goal hangs on it: the most samples, also in a quick run."""
    FULL = "full"
    """Every number in flight, both gaps, processor time."""
    SHORT = "short"
    """One in flight, with gaps; left out of a quick run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    name: str
    tool: str
    """What our own service is asked for."""
    arguments: Mapping[str, str] = field(default_factory=dict)
    argv: tuple[str, ...] = ()
    """The same for peers that run commands; none where it needs files, which they have no way to be given."""
    stdout: bytes = b""
    """All that must come back; anything else is a failure."""
    files: tuple[InputFile, ...] = ()
    collect: tuple[str, ...] = ()
    artifacts: int = 0
    """Files that must come back."""
    depth: Depth = Depth.SHORT


_SUM = "SELECT sum(value) AS total FROM generate"
_NUMBERS = "WITH RECURSIVE generate(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM generate WHERE value < 1000) "
_SQL = _NUMBERS + _SUM
_ANSWER = '{"columns": ["total"], "rows": [[500500]], "row_count": 1, "truncated": false}'
_SQLITE = f"""\
import json, sqlite3, sys
cursor = sqlite3.connect(":memory:").execute({_SQL!r})
rows = cursor.fetchall()
columns = [column[0] for column in cursor.description]
json.dump(dict(columns=columns, rows=rows, row_count=len(rows), truncated=False), sys.stdout)
print()
"""
_BASH = "echo $((6*7))"
_PYTHON = "print(1)"
_MIB = 1024 * 1024
_OUTPUT = f"head -c {_MIB} /dev/zero | tr '\\0' x"
_FILES = tuple(InputFile(path=f"in/{number:03}.txt", content=b"%03d\n" % number * 256) for number in range(100))

ROWS = (
    Row(name="true", tool="true", argv=("true",), depth=Depth.GOAL),
    Row(
        name="bash",
        tool="shell",
        arguments={"command": _BASH},
        argv=("bash", "-c", _BASH),
        stdout=b"42\n",
        depth=Depth.FULL,
    ),
    Row(
        name="print(1)",
        tool="python",
        arguments={"code": _PYTHON},
        argv=("python3", "-c", _PYTHON),
        stdout=b"1\n",
        depth=Depth.FULL,
    ),
    Row(
        name="sqlite query",
        tool="sqlite",
        arguments={"sql": _SQL},
        argv=("python3", "-I", "-c", _SQLITE),
        stdout=f"{_ANSWER}\n".encode(),
    ),
    Row(
        name="1 MiB of output",
        tool="shell",
        arguments={"command": _OUTPUT},
        argv=("bash", "-c", _OUTPUT),
        stdout=b"x" * _MIB,
    ),
    Row(
        name="100 files in and out",
        tool="shell",
        arguments={"command": "cp -r in out"},
        files=_FILES,
        collect=("out/*.txt",),
        artifacts=len(_FILES),
    ),
)
