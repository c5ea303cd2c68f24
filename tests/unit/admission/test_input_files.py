import pytest

from executor.admission.input_files import MAX_GLOBS, check_files
from executor.model.errors import ErrorCode, InvocationError
from executor.model.invocation import InputFile
from executor.model.limits import Limits
from executor.model.tool import Command, Effect, Policy, Tool

TOOL = Tool(
    name="t",
    version="1.0.0",
    description="",
    parameters={},
    effect=Effect.READ_ONLY,
    policy=Policy(image="host", limits=Limits()),
    command=Command(argv=("t",), files={"main.py": "", "lib/own.py": ""}),
)


def files(*paths):
    return tuple(InputFile(path=path, content=b"x") for path in paths)


def refused(*paths, collect=(), **bounds):
    with pytest.raises(InvocationError) as caught:
        check_files(files(*paths), collect, TOOL, **bounds)
    return caught.value.detail


@pytest.mark.parametrize(
    "paths", [(), ("a", "b"), ("a/b", "a/c", "lib/other.py"), (".hidden",), ("Main.py",), ("main.py.txt",)]
)
def test_files_with_paths_of_their_own_are_accepted(paths):
    assert check_files(files(*paths), ("**/*.csv", "out/*"), TOOL) is None


@pytest.mark.parametrize(
    "path",
    ["../x", "/abs", "", ".", "a/..", "a\0b", "a//b", "a/", "x" * 256, "a/" * 64 + "a", "main.py", "main.py/x", "lib"],
)
def test_a_path_that_cannot_be_written_is_refused_with_a_pointer(path):
    detail = refused("fine", path)
    assert detail.code is ErrorCode.SCHEMA_VIOLATION
    assert [(v.pointer, v.keyword) for v in detail.violations] == [("/files/1/path", "path")]


def test_the_same_path_twice_is_refused():
    assert [v.pointer for v in refused("a", "b", "a").violations] == ["/files/2/path"]


def test_a_file_that_is_the_directory_of_another_is_refused():
    assert [v.pointer for v in refused("a/b/c", "a/b").violations] == ["/files/1/path"]


@pytest.mark.parametrize("glob", ["../*", "/etc/*", "", ".", "a\0", "a/../../b"])
def test_a_glob_that_leaves_the_workspace_is_refused_with_a_pointer(glob):
    detail = refused(collect=("fine/*", glob))
    assert [(v.pointer, v.keyword) for v in detail.violations] == [("/collect/1", "path")]


def test_the_number_of_globs_is_bounded():
    assert refused(collect=("a",) * (MAX_GLOBS + 1)).violations[0].keyword == "maxItems"


def test_the_bytes_of_all_files_together_are_bounded():
    detail = refused("a", "b", max_bytes=1)
    assert detail.code is ErrorCode.PAYLOAD_TOO_LARGE
    assert "files_bytes is 1" in detail.message


def test_a_tool_without_a_command_writes_no_files():
    internal = Tool(**{f: getattr(TOOL, f) for f in TOOL.__dataclass_fields__} | {"command": None})
    assert check_files(files("main.py"), (), internal) is None
