"""What the server tells the launcher, and the launcher tells each sandbox. They travel as records of `wire`: the
launcher sees objects with these fields, without the classes.
"""

from dataclasses import dataclass, field, fields, is_dataclass

from executor.sandbox.native import wire


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    source: str
    """Directory of the host."""
    target: str
    """Absolute path inside; `/` is the root of the image."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplatePlan:
    """An interpreter of an image that is started once, imports its modules, and is forked for each call."""

    name: str
    interpreter: str
    """Absolute path of a Python 3.10 or later in the image."""
    modules: tuple[str, ...] = ()
    """Imported in this order; a call whose program imports one of them is served by this template."""
    warm: str = ""
    """Python source, run once after the imports: it calls what loads lazily."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePlan:
    """A file system, as read-only directories of the host and files made at start."""

    name: str
    digest: str
    layers: tuple[Layer, ...]
    """Parents before children."""
    directories: tuple[str, ...] = ()
    """Made in the lowest layer; relative to the root."""
    links: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    """Path -> content, as Latin-1 text so that any bytes travel."""
    environment: dict[str, str] = field(default_factory=dict)
    templates: tuple[TemplatePlan, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Hierarchy:
    """One cgroup file system and the directory of it in which sandboxes get theirs."""

    version: int
    controllers: tuple[str, ...]
    base: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LauncherPlan:
    stage: str
    """An empty directory; the launcher mounts its own root on it, in a mount namespace of its own."""
    images: tuple[ImagePlan, ...]
    hierarchies: tuple[Hierarchy, ...]
    first_id: int
    id_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rlimits:
    open_files: int
    file_bytes: int
    data_bytes: int = 0
    """Of private memory; 0 where the cgroup holds the memory."""
    processes: int = 0
    """0 where the cgroup holds the number of processes."""
    cpu_seconds: int = 0
    """0 where the cgroup counts the tree's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxPlan:
    image: str
    workspace_bytes: int
    workspace_inodes: int
    tmp_bytes: int
    tmp_inodes: int
    rlimits: Rlimits
    template: str = ""
    """Name of the image's template that is to bear it; empty where it executes its program."""
    cgroup: tuple[tuple[str, str], ...]
    """(file name, value), written when the cgroup is made; a hierarchy takes those that it has."""


def encode(message: object) -> bytes:
    return wire.packed(plain(message))


def plain(value: "wire.Plain") -> "wire.Plain":
    """Dataclasses become records, at any depth of tuples and of other dataclasses."""
    if is_dataclass(value):
        return wire.A_RECORD | {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, tuple):
        return tuple(plain(item) for item in value)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value
