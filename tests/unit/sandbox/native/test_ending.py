"""When a forked interpreter may end the short way: where its program came to the end of its main file, and nothing is
to be flushed that could not be. That programs notice nothing of it is what the corpus shows.
"""

import errno
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import executor
from executor.sandbox.native import ending

ARRANGED = """
import os
from executor.sandbox.native import ending
ending.arrange()
ending.keep()
ending.watch(
    lambda write=os.write: write(1, b"end of the program\\n"),
    lambda write=os.write: write(1, b"end of the process\\n"),
)
"""
"""A module of its own, because what is kept must not hold the main one."""
SHORT = b"end of the program\nend of the process\n"
CLASS = "class Last:\n    def __del__(self, write=__import__('os').write): write(1, b'finalised\\n')\n"


def run(tmp_path: Path, program: str, *options: str) -> subprocess.CompletedProcess[bytes]:
    """A program that ends as in a fork of a template without modules."""
    (tmp_path / "arranged.py").write_text(ARRANGED)
    (tmp_path / "main.py").write_text(f"import arranged\n{program}")
    return subprocess.run(
        [sys.executable, *options, "main.py"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(Path(executor.__file__).parents[1])},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("program", "before"),
    [
        ("", b""),
        ("print('last words')", b"last words\n"),
        ("import atexit; atexit.register(print, 'registered')", b"registered\n"),
        ("import threading\nthreading.Timer(0, print, ('thread',)).start()", b"thread\n"),
        ("try:\n    1 / 0\nexcept ZeroDivisionError:\n    pass", b""),
        ("try:\n    raise SystemExit(3)\nexcept SystemExit:\n    pass", b""),
        ("import sys; sys.stdout.close()", b""),
        ("import sys; sys.stdout = None", b""),
    ],
    ids=["nothing", "output", "atexit", "a thread", "a caught error", "a caught exit", "closed stdout", "no stdout"],
)
def test_a_program_that_came_to_its_end_ends_the_short_way(tmp_path: Path, program: str, before: bytes):
    ended = run(tmp_path, program)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert ended.stdout == before + SHORT


@pytest.mark.parametrize(
    ("program", "status"),
    [
        ("raise SystemExit", 0),
        ("import sys; sys.exit(3)", 3),
        ("1 / 0", 1),
        ("raise KeyboardInterrupt", -2),
        ("import io, sys; sys.stdout = io.StringIO()", 0),
        ("import io, sys\nclass Own(io.TextIOWrapper): pass\nsys.stderr = Own(sys.stderr.detach())", 0),
        ("import os; os.close(1); print('lost')", 120),
    ],
    ids=["exit", "exit with a status", "an error", "an interrupt", "another stdout", "an own class", "a lost flush"],
)
def test_any_other_end_is_cpythons_whole_one(tmp_path: Path, program: str, status: int):
    ended = run(tmp_path, program)
    assert ended.returncode == status, ended.stderr
    assert b"end of the pro" not in ended.stdout


@pytest.mark.parametrize("program", [f"{CLASS}last = Last()", f"{CLASS}import json\njson.last = Last()"])
def test_what_the_program_made_is_finalised_before_the_process_ends(tmp_path: Path, program: str):
    ended = run(tmp_path, program)
    assert ended.stdout == b"end of the program\nfinalised\nend of the process\n"


# --- the conditions -------------------------------------------------------------------------------------------------


@pytest.fixture
def streams() -> Iterator[tuple[io.TextIOWrapper, int]]:
    read, write = os.pipe()
    stream = io.TextIOWrapper(os.fdopen(write, "wb"))
    yield stream, read
    os.close(read)
    if not stream.closed:
        stream.close()


def test_what_stands_in_a_stream_is_flushed(streams):
    stream, read = streams
    stream.write("words")
    assert ending._flushed((stream, None))
    assert os.read(read, 100) == b"words"


def test_a_closed_stream_has_nothing_to_be_flushed(streams):
    streams[0].close()
    assert ending._flushed((streams[0],))


class Disk(io.RawIOBase):
    is_full = True

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        if self.is_full:
            raise OSError(errno.ENOSPC, "full")
        return len(bytes(data))


def test_a_stream_that_cannot_be_flushed_is_told():
    disk = Disk()
    with io.TextIOWrapper(io.BufferedWriter(disk)) as stream:
        stream.write("words")
        assert not ending._flushed((stream,))
        disk.is_full = False
        assert ending._flushed((stream,))


def test_a_stream_of_another_kind_is_not_touched():
    class Own(io.StringIO):
        def flush(self) -> None:
            raise AssertionError("asked")

    assert not ending._flushed((Own(),))


@pytest.mark.parametrize("name", ["__file__", "__cached__"])
def test_a_main_module_that_still_has_its_file_did_not_come_to_its_end(name: str):
    assert ending._came_to_its_end({"__name__": "__main__"})
    assert not ending._came_to_its_end({"__name__": "__main__", name: "main.py"})


@pytest.mark.parametrize("name", ["last_type", "last_value"])
def test_a_program_with_an_error_that_nobody_caught_did_not_come_to_its_end(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, name, None, raising=False)
    assert not ending._came_to_its_end({"__name__": "__main__"})
