"""The settings of one process, read once: command line over environment over file over defaults.

Only `app` and `cli` import this; everything else is handed the values it needs. Nothing is ignored: a key that means
nothing is refused by name, because a misspelt restriction would otherwise be no restriction.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

import platformdirs
import psutil
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from executor.catalogue import document
from executor.model.errors import Misconfigured
from executor.model.limits import MIB, Limits
from executor.schema.nearest import MAX_NAME_CHARS, brief, did_you_mean


def split(value: object) -> object:
    """Lists are written with commas where they stand in one text, as in the environment."""
    return [item.strip() for item in value.split(",") if item.strip()] if isinstance(value, str) else value


def _absolute(path: Path) -> Path:
    return path.absolute()


Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
HostPath = Annotated[Path, AfterValidator(_absolute)]
Names = Annotated[tuple[str, ...], BeforeValidator(split)]
HostPaths = Annotated[tuple[HostPath, ...], BeforeValidator(split)]


def default_state_dir() -> Path:
    if os.geteuid() == 0:
        return Path("/var/lib/executor")
    return platformdirs.user_state_path("executor")


def default_images_dir() -> Path:
    """Where `sandbox_images/build.py` puts them."""
    if os.geteuid() == 0:
        return Path("/var/lib/executor/images")
    return platformdirs.user_data_path("executor") / "images"


def default_slots() -> int:
    """Tools wait more than they compute, so several share a core; each may fill its memory."""
    by_memory = int(psutil.virtual_memory().total * 0.75) // Limits().memory_bytes
    return max(1, min(4 * (psutil.cpu_count() or 1), by_memory))


def default_launchers() -> int:
    """More than four would only wait for the kernel's locks of mounts and namespaces."""
    return min(4, psutil.cpu_count() or 1)


class Settings(BaseModel):
    """What an operator may choose."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    listen: Names = ()
    """Addresses of the server; none means the user's own Unix socket."""
    catalogue: HostPaths = ()
    """Directories of manifests, beside the built-in tools."""
    state_dir: HostPath = Field(default_factory=default_state_dir)
    """Outputs, and what the sandboxes need on disk."""
    images_dir: HostPath = Field(default_factory=default_images_dir)
    """Images built from `sandbox_images/`."""
    default_image: str = Field(default="host", min_length=1)
    """Of a tool whose manifest names none."""
    allow_degraded: Names = ()
    """Facilities, as `executor doctor` names them, that this host may lack."""

    slots: int = Field(default_factory=default_slots, ge=1, le=4096)
    """Invocations that run at one time."""
    queue_length: int = Field(default=64, ge=0, le=65_536)
    """Invocations that wait for a slot."""
    queue_timeout_seconds: Seconds = 10.0
    deny_tools: Names = ()
    """Names of tools that nobody may use."""
    allow_destructive: bool = False
    """Run destructive tools without an approval."""

    output_ttl_seconds: Seconds = 86_400.0
    """How long full outputs and artifacts are kept."""
    output_quota_bytes: int = Field(default=1024 * MIB, ge=MIB)
    """Of all that is kept; the oldest goes first."""

    heartbeat_seconds: Seconds = 5.0
    """Between two signs of life of a stream on which nothing happens."""
    drain_seconds: Seconds = 30.0
    """How long a server that stops waits for what runs."""
    log_format: Literal["auto", "text", "json"] = "auto"
    """`auto`: text on a terminal, JSON otherwise."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    pool_size: int = Field(default=32, ge=0, le=1024)
    """Sandboxes kept ready in all; 0 makes each one on demand. How many of them there are follows demand."""
    pool_least: int = Field(default=4, ge=0, le=256)
    """Of each kind that was asked for lately, and of each that the catalogue's tools ask for by themselves."""
    pool_refill_per_second: Seconds = 400.0
    """Made ahead at most."""
    launchers: int = Field(default_factory=default_launchers, ge=1, le=64)
    """Processes that make sandboxes."""
    templates: bool = True
    """Fork an image's interpreters where it declares templates, instead of starting one for each call."""
    sandbox_uid_base: int = Field(default=1_000_000, ge=65_536, lt=2**31)
    """First of the host's user and group ids that belong to sandboxes; nobody else may have them."""
    sandbox_uid_count: int = Field(default=65_536, ge=1, le=2**31 - 1)

    @property
    def outputs_path(self) -> Path:
        return self.state_dir / "outputs"


PREFIX = "EXECUTOR_"
CONFIG_VARIABLE = f"{PREFIX}CONFIG"
FOREIGN_VARIABLES = frozenset({f"{PREFIX}NUMBER"})
"""Jenkins sets it in every build."""
_PATHS = ("catalogue", "state_dir", "images_dir")


@dataclass(frozen=True, slots=True)
class _Source:
    """Values by field name, and what to call each in a message."""

    values: Mapping[str, Any]
    place: Callable[[str], str]


def load(
    config: Path | None = None,
    chosen: Mapping[str, Any] = MappingProxyType({}),
    environ: Mapping[str, str] = os.environ,
) -> Settings:
    """`chosen` comes from the command line; None there means not given. Raises Misconfigured, naming every fault."""
    if config is None and (named := environ.get(CONFIG_VARIABLE)):
        config = Path(named)
    sources = (
        _Source({k: v for k, v in chosen.items() if v is not None}, lambda name: f"--{name.replace('_', '-')}"),
        _environment(environ),
        *([_file(config)] if config else []),
    )
    values: dict[str, Any] = {}
    for source in reversed(sources):
        values |= source.values
    try:
        return Settings(**values)
    except ValidationError as error:
        faults = [_told(fault, sources) for fault in error.errors(include_url=False, include_context=False)]
        raise Misconfigured("; ".join(dict.fromkeys(faults))) from None


def _environment(environ: Mapping[str, str]) -> _Source:
    """An empty variable is as good as none."""
    known = {name for name in environ if name.startswith(PREFIX)} - FOREIGN_VARIABLES - {CONFIG_VARIABLE}
    values = {name.removeprefix(PREFIX).lower(): environ[name] for name in known if environ[name]}
    return _Source(values, lambda name: f"{PREFIX}{name.upper()}")


def _file(path: Path) -> _Source:
    try:
        with path.open("rb") as file:
            read = document.read(file.read(document.MAX_BYTES + 1))
    except document.Unreadable as error:
        raise Misconfigured(f"{path}:{error.mark.line}:{error.mark.column}: {error.message}") from None
    except OSError as error:
        raise Misconfigured(f"The settings file {path} cannot be read: {error.strerror}.") from None
    if not isinstance(read.value, dict):
        raise Misconfigured(f"{path}:1:1: the settings file is not a mapping; write lines such as `slots: 4`")
    values = {name: _anchored(value, path.parent) if name in _PATHS else value for name, value in read.value.items()}

    def place(name: str) -> str:
        mark = read.locate((name,), at_key=True)
        return f"{path}:{mark.line}:{mark.column}: {name}"

    return _Source(values, place)


def _anchored(value: object, base: Path) -> object:
    """Paths in a file are relative to that file."""
    match split(value) if isinstance(value, str) else value:
        case [str() as one] if isinstance(value, str):
            return base / one
        case [*many]:
            return [base / one if isinstance(one, str) else one for one in many]
        case other:
            return other


def _told(fault: Mapping[str, Any], sources: Iterable[_Source]) -> str:
    name = str(fault["loc"][0])
    place = next((source.place(name) for source in sources if name in source.values), name)
    if fault["type"] == "extra_forbidden":
        guess = did_you_mean(name, Settings.model_fields)
        return f"{place}: there is no such setting; {guess or 'there are: ' + ', '.join(Settings.model_fields)}"
    received = brief(repr(fault["input"]), MAX_NAME_CHARS)
    return f"{place}: {fault['msg'][0].lower()}{fault['msg'][1:]}, not {received}"
