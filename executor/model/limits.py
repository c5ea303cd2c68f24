"""What one invocation may use. There is no value that means unlimited."""

from dataclasses import dataclass, fields

from executor.model.errors import ErrorCode, ErrorDetail, InvocationError, Violation

KIB = 1024
MIB = 1024 * KIB
_TIB = 1024 * 1024 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Every field is positive and finite. Defaults hold for a tool whose manifest names none."""

    wall_seconds: float = 30.0
    """From the hand-over of the command to the end of its main process."""
    cpu_seconds: float = 30.0
    """Processor time of the whole process tree."""
    cpu_cores: float = 1.0
    """Rate at which processor time may be used."""
    memory_bytes: int = 512 * MIB
    """Of the whole tree, with its tmpfs pages; swap is off."""
    processes: int = 128
    """Processes and threads of the tree at one time."""
    workspace_bytes: int = 64 * MIB
    workspace_inodes: int = 8192
    tmp_bytes: int = 64 * MIB
    """Size of /tmp; /dev/shm has the same."""
    tmp_inodes: int = 8192
    file_bytes: int = 64 * MIB
    """Largest single file."""
    open_files: int = 1024
    """Per process."""
    output_bytes: int = 8 * MIB
    """Of stdout and stderr together, as the program writes them."""
    text_bytes: int = 16 * KIB
    """Of each stream's text in the outcome; the rest stays behind its ref."""
    artifact_count: int = 128
    artifact_bytes: int = 32 * MIB
    """Of all artifacts together."""

    def lowered_by(self, asked: "dict[str, float]") -> "Limits":
        """These limits with each field of `asked` put in where it is lower.

        Raises InvocationError(SCHEMA_VIOLATION) for an unknown name, a value that is not a positive, finite number,
        or one below LEAST. A higher value is clamped to the tool's own.
        """
        violations = tuple(v for name, value in asked.items() if (v := _violation(name, value)))
        if violations:
            raise InvocationError(
                ErrorDetail(
                    code=ErrorCode.SCHEMA_VIOLATION,
                    message="The limits asked for are not valid.",
                    violations=violations,
                    suggestion="Give each limit as a positive number that a sandbox can live with, or leave it out.",
                )
            )
        chosen = {name: getattr(self, name) for name in LIMIT_NAMES}
        for name, value in asked.items():
            lower = min(chosen[name], value)
            chosen[name] = max(1, int(lower)) if name in _WHOLE else lower
        return Limits(**chosen)


LIMIT_NAMES: tuple[str, ...] = tuple(f.name for f in fields(Limits))
LEAST: dict[str, float] = {"memory_bytes": 4 * MIB, "open_files": 16, "cpu_cores": 0.01}
"""Below these no sandbox can be made, or it takes seconds; the others may be as low as they like."""
MOST: dict[str, float] = {
    "wall_seconds": 86_400,
    "cpu_seconds": 86_400,
    "cpu_cores": 4096,
    "memory_bytes": 16 * _TIB,
    "processes": 32_768,
    "workspace_bytes": 16 * _TIB,
    "workspace_inodes": 2**31,
    "tmp_bytes": 16 * _TIB,
    "tmp_inodes": 2**31,
    "file_bytes": 16 * _TIB,
    "open_files": 2**20,
    "output_bytes": 1024 * MIB,
    "text_bytes": MIB,
    "artifact_count": 1024,
    "artifact_bytes": 256 * MIB,
}
"""What a manifest may allow: what the kernel takes, and where the service itself holds it, what it can hold. The text
of both streams, and all else of an outcome, must fit one message."""
_WHOLE = frozenset(f.name for f in fields(Limits) if isinstance(f.default, int))


def _violation(name: str, value: float) -> Violation | None:
    if name not in LIMIT_NAMES:
        return Violation(pointer=f"/limits/{name}", keyword="unknown", message=f"there is no limit {name!r}")
    if not 0 < value < float("inf"):  # NaN fails both comparisons
        return Violation(
            pointer=f"/limits/{name}",
            keyword="exclusiveMinimum",
            message=f"{value!r} is not a positive, finite number",
        )
    if value < LEAST.get(name, 0):
        return Violation(
            pointer=f"/limits/{name}",
            keyword="minimum",
            message=f"{value!r} is below {LEAST[name]}, without which no sandbox can be made",
        )
    return None
