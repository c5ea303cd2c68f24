"""What is run: one line of the tables each, the same program for every peer. To add a row, add it here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from executor.model.invocation import InputFile

HOST = "host"
DATA = "data"


class Depth(StrEnum):
    """How much of a row is measured."""

    GOAL = "goal"
    """Goals hang on its latency: the most samples, by all peers, also in a quick run."""
    RATE = "rate"
    """A goal hangs on its rate with several in flight."""
    SHORT = "short"
    """By the nearest peers, and left out of a quick run."""


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
    prepared: str = "pooled"
    """How an outcome's `isolation.prepared` begins when our own service is ready for it."""
    image: str = HOST
    """Whose programs it runs, with every peer."""
    heavy: bool = False
    """A fresh process of it takes a good part of a second, and much memory: few samples, few at one time."""
    depth: Depth = Depth.SHORT

    @property
    def program(self) -> str:
        """What the image must have."""
        return self.argv[0] if self.argv else "bash"


SQL = (
    "WITH RECURSIVE generate(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM generate WHERE value < 1000) "
    "SELECT sum(value) FROM generate;"
)
"""As it stands in the manifest of `sqlite3_sum`."""
_BASH = "echo $((6*7))"
_PYTHON = "print(1)"
_NODE = "console.log(6 * 7)"
_IMPORT = "import pandas; print(1)"
_GROUP_BY = """\
import numpy as np
import pandas as pd

index = np.arange(1000)
frame = pd.DataFrame({"key": index % 10, "value": index * 0.5})
print(frame.groupby("key")["value"].agg(["sum", "mean", "max"]).round(1).to_csv(), end="")
"""
_GROUPS = "".join(f"{key},{24750.0 + 50 * key},{247.5 + key / 2},{495.0 + key / 2}\n" for key in range(10))
_MIB = 1024 * 1024
_OUTPUT = f"head -c {_MIB} /dev/zero | tr '\\0' x"
_FILES = tuple(InputFile(path=f"in/{number:03}.txt", content=b"%03d\n" % number * 256) for number in range(100))

ROWS = (
    Row(name="true", tool="true", argv=("true",), depth=Depth.GOAL),
    Row(name="bash", tool="shell", arguments={"command": _BASH}, argv=("bash", "-c", _BASH), stdout=b"42\n"),
    Row(
        name="print(1)",
        tool="python",
        arguments={"code": _PYTHON},
        argv=("python3", "-c", _PYTHON),
        stdout=b"1\n",
        prepared="pooled+template:",
        depth=Depth.GOAL,
    ),
    Row(
        name="pandas group-by",
        tool="data_python",
        arguments={"code": _GROUP_BY},
        argv=("python3", "-c", _GROUP_BY),
        stdout=f"key,sum,mean,max\n{_GROUPS}".encode(),
        prepared="pooled+template:data",
        image=DATA,
        heavy=True,
        depth=Depth.GOAL,
    ),
    Row(
        name="import pandas",
        tool="data_python",
        arguments={"code": _IMPORT},
        argv=("python3", "-c", _IMPORT),
        stdout=b"1\n",
        prepared="pooled+template:data",
        image=DATA,
        heavy=True,
        depth=Depth.RATE,
    ),
    Row(name="node", tool="node", arguments={"code": _NODE}, argv=("node", "-e", _NODE), stdout=b"42\n"),
    Row(name="sqlite query", tool="sqlite3_sum", argv=("sqlite3", ":memory:", SQL), stdout=b"500500\n"),
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
