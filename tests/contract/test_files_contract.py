"""What goes into a sandbox and what comes out of it."""

import pytest

from executor.model.errors import ErrorCode, InvocationError
from executor.model.invocation import InputFile
from executor.model.run import Collection, End
from tests.support.bench import Bench, Result, process
from tests.support.programs import Programs

WRITTEN = {
    "a.txt": "alpha",
    "b.csv": "beta",
    "out/c.txt": "gamma",
    "out/deep/er/d.txt": "delta",
    "out/deep/e.bin": "epsilon",
}


def collected(result: Result) -> dict[str, bytes]:
    return {file.path: file.content for file in result.collection.files}


def refused(collection: Collection) -> dict[str, str]:
    return {file.path: file.reason for file in collection.refused}


async def test_staged_files_are_in_the_workspace_when_the_command_starts(bench: Bench, programs: Programs):
    files = (
        InputFile(path="in.bin", content=bytes(range(256))),
        InputFile(path="some/where/deep.txt", content=b"deep"),
        InputFile(path="empty", content=b""),
    )
    whole = await bench.run(programs.read("in.bin"), files=files)
    deep = await bench.run(programs.read("/workspace/some/where/deep.txt"), files=files)
    empty = await bench.run(programs.read("empty"), files=files)
    assert (whole.stdout, deep.stdout) == (bytes(range(256)), b"deep")
    assert (empty.report.exit_code, empty.stdout) == (0, b"")


async def test_a_staged_executable_runs(bench: Bench, programs: Programs):
    script = InputFile(path="bin/hello", content=programs.script("hello"), executable=True)
    result = await bench.run(("/workspace/bin/hello",), files=(script,))
    assert (result.report.end, result.report.exit_code, result.stdout) == (End.EXITED, 0, b"hello\n")


async def test_input_files_larger_than_the_workspace_are_refused_and_nothing_runs(bench: Bench, programs: Programs):
    large = InputFile(path="large", content=bytes(2 * 1024 * 1024))
    with pytest.raises(InvocationError) as refusal:
        await bench.run(programs.exit(0), files=(large,), workspace_bytes=1024 * 1024)
    assert refusal.value.detail.code is ErrorCode.PAYLOAD_TOO_LARGE


@pytest.mark.parametrize(
    ("globs", "expected"),
    [
        (("a.txt",), {"a.txt"}),
        (("*.txt",), {"a.txt"}),
        (("*",), {"a.txt", "b.csv"}),
        (("out/*",), {"out/c.txt"}),
        (("*/c.txt",), {"out/c.txt"}),
        (("**/*.txt",), {"a.txt", "out/c.txt", "out/deep/er/d.txt"}),
        (("out/**/*.txt",), {"out/c.txt", "out/deep/er/d.txt"}),
        (("out/**",), {"out/c.txt", "out/deep/er/d.txt", "out/deep/e.bin"}),
        (("**",), set(WRITTEN)),
        (("[ab].???",), {"a.txt", "b.csv"}),
        (("*.csv", "out/c.txt", "*.csv"), {"b.csv", "out/c.txt"}),
        (("nothing*", "out/absent.txt"), set()),
    ],
)
async def test_globs_choose_what_is_collected(
    bench: Bench, programs: Programs, globs: tuple[str, ...], expected: set[str]
):
    result = await bench.run(programs.write(WRITTEN), collect=globs)
    assert result.report.exit_code == 0, result.stderr
    assert collected(result) == {path: WRITTEN[path].encode() for path in expected}
    assert result.collection.refused == ()


async def test_excluded_files_are_neither_collected_nor_refused(bench: Bench, programs: Programs):
    own = InputFile(path="own.py", content=b"code", internal=True)
    result = await bench.run(programs.write(WRITTEN), files=(own,), collect=("*",), exclude=("own.py", "b.csv"))
    assert collected(result) == {"a.txt": b"alpha"}
    assert result.collection.refused == ()


async def test_collected_content_is_byte_exact_and_may_be_empty(bench: Bench, programs: Programs):
    files = (InputFile(path="any", content=bytes(range(256))), InputFile(path="empty", content=b""))
    result = await bench.run(programs.exit(0), files=files, collect=("**",))
    assert collected(result) == {"any": bytes(range(256)), "empty": b""}


async def test_a_symbolic_link_is_refused_by_name(bench: Bench, programs: Programs):
    result = await bench.run(programs.link("/etc/passwd", "out.txt"), collect=("*",))
    assert result.report.exit_code == 0, result.stderr
    assert result.collection.files == ()
    assert "link" in refused(result.collection)["out.txt"]


async def test_a_named_pipe_is_refused_without_waiting(bench: Bench, programs: Programs):
    result = await bench.run(programs.fifo("pipe"), collect=("*",))
    assert result.report.exit_code == 0, result.stderr
    assert result.collection.files == ()
    assert "pipe" in refused(result.collection)["pipe"]


async def test_a_name_of_any_bytes_is_returned_escaped(bench: Bench, programs: Programs):
    result = await bench.run(programs.write_odd_name(), collect=("**",))
    assert result.report.exit_code == 0, result.stderr
    assert [file.content for file in result.collection.files] == [b"odd"]
    path = result.collection.files[0].path
    assert path.startswith(r"odd\xff")
    assert path.isprintable()


async def test_a_file_too_large_for_what_is_left_is_refused_and_the_others_returned(bench: Bench, programs: Programs):
    written = {"1.txt": "x" * 40, "2.txt": "x" * 80, "3.txt": "x" * 40}
    result = await bench.run(programs.write(written), collect=("*",), artifact_bytes=100)
    assert collected(result) == {"1.txt": b"x" * 40, "3.txt": b"x" * 40}
    assert "artifact_bytes" in refused(result.collection)["2.txt"]


async def test_no_more_files_are_collected_than_the_limit_allows(bench: Bench, programs: Programs):
    result = await bench.run(programs.write(WRITTEN), collect=("**",), artifact_count=2)
    assert len(result.collection.files) == 2
    assert any("artifact_count" in file.reason for file in result.collection.refused)


async def test_what_was_written_before_a_kill_can_be_collected(bench: Bench, programs: Programs):
    kept = InputFile(path="kept.txt", content=b"kept")
    result = await bench.run(programs.sleep("60"), files=(kept,), wall_seconds=0.3, collect=("*",))
    assert collected(result) == {"kept.txt": b"kept"}


async def test_without_a_glob_nothing_is_collected(bench: Bench, programs: Programs):
    async with bench.sandbox() as sandbox:
        await sandbox.run(process(programs.write(WRITTEN)), lambda _stream, _data: None)
        assert await sandbox.collect((), ()) == Collection()
