"""May these files be written into the workspace, and these globs be collected from it? Decides on names and sizes."""

from collections.abc import Iterator, Sequence

from executor.model.errors import ErrorCode, ErrorDetail, InvocationError, Violation
from executor.model.invocation import InputFile
from executor.model.limits import MIB
from executor.model.tool import Tool
from executor.schema.nearest import brief
from executor.schema.paths import parents, path_problem
from executor.schema.validator import MAX_VIOLATIONS

MAX_FILES_BYTES = 32 * MIB
MAX_GLOBS = 128


def check_files(
    files: Sequence[InputFile], collect: Sequence[str], tool: Tool, *, max_bytes: int = MAX_FILES_BYTES
) -> None:
    """Raises InvocationError: SCHEMA_VIOLATION with a pointer such as `/files/0/path`, or PAYLOAD_TOO_LARGE."""
    if not files and not collect:
        return
    reserved = frozenset(tool.command.files if tool.command else ())
    found = (*_file_violations(files, reserved), *_glob_violations(collect))
    if found:
        raise InvocationError(
            ErrorDetail(
                code=ErrorCode.SCHEMA_VIOLATION,
                message=f"The files of the call cannot be used: {found[0].pointer}: {found[0].message}",
                violations=found[:MAX_VIOLATIONS],
                suggestion="Give each file and glob a path of its own, relative to /workspace, such as `data/in.csv`.",
            )
        )
    total = sum(len(file.content) for file in files)
    if total > max_bytes:
        message = f"The files have {total} bytes together; files_bytes is {max_bytes}."
        raise InvocationError(
            ErrorDetail(
                code=ErrorCode.PAYLOAD_TOO_LARGE,
                message=message,
                violations=(Violation(pointer="/files", keyword="size", message=message),),
                suggestion="Send fewer or smaller files.",
            )
        )


def _file_violations(files: Sequence[InputFile], reserved: frozenset[str]) -> Iterator[Violation]:
    directories = {parent for file in files for parent in parents(file.path)}
    tools_directories = {parent for path in reserved for parent in parents(path)}
    seen: set[str] = set()
    for index, file in enumerate(files):
        path = file.path
        problem = path_problem(path)
        if problem is None and path in seen:
            problem = "is there twice"
        if problem is None and path in directories:
            problem = "is a file and also the directory of another file"
        if problem is None and (path in tools_directories or not reserved.isdisjoint((path, *parents(path)))):
            problem = "clashes with a file that the tool itself writes"
        if problem:
            yield _violation(f"/files/{index}/path", path, problem)
        seen.add(path)


def _glob_violations(collect: Sequence[str]) -> Iterator[Violation]:
    if len(collect) > MAX_GLOBS:
        yield Violation(pointer="/collect", keyword="maxItems", message=f"There are more than {MAX_GLOBS} globs.")
    for index, glob in enumerate(collect[:MAX_GLOBS]):
        if problem := path_problem(glob):
            yield _violation(f"/collect/{index}", glob, problem)


def _violation(pointer: str, path: str, problem: str) -> Violation:
    return Violation(pointer=pointer, keyword="path", message=f"The path {brief(path, 80)!r} {problem}.")
