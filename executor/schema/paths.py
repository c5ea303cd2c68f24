"""What a path below /workspace may look like. Decides on the text alone; the sandbox checks again by descriptor."""

from collections.abc import Iterable

MAX_COMPONENT_BYTES = 255
MAX_LEVELS = 64
MAX_PATH_BYTES = 4095


def path_problem(path: str) -> str | None:
    """Why `path` does not name a file below /workspace; None where it does. A clause for `the path ...`."""
    if "\0" in path:
        return "contains a NUL character"
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        return "contains a lone surrogate, which no file name can hold"
    if size > MAX_PATH_BYTES:
        return f"is longer than {MAX_PATH_BYTES} bytes"
    return _shape_problem(path)


def parents(path: str) -> Iterable[str]:
    """The directories that must exist for `path`, the outermost first."""
    parts = path.split("/")[:-1]
    return ("/".join(parts[: i + 1]) for i in range(len(parts)))


def _shape_problem(path: str) -> str | None:
    parts = path.split("/")
    problems = (
        (path == "", "is empty"),
        (path.startswith("/"), "is absolute; it must be relative to /workspace"),
        (".." in parts, "leaves the workspace: `..` is not allowed"),
        ("." in parts, "has a `.` part; write it without"),
        ("" in parts, "has an empty part: `//`, or a `/` at the end"),
        (len(parts) > MAX_LEVELS, f"is more than {MAX_LEVELS} levels deep"),
        (
            any(len(part.encode()) > MAX_COMPONENT_BYTES for part in parts),
            f"has a part of more than {MAX_COMPONENT_BYTES} bytes",
        ),
    )
    return next((problem for holds, problem in problems if holds), None)
