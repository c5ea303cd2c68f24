"""Where images and downloads lie, by the environment and who runs the build. Pure."""

from collections.abc import Mapping
from pathlib import Path


def images_dir(environment: Mapping[str, str], *, is_root: bool) -> Path:
    if chosen := environment.get("EXECUTOR_IMAGES_DIR"):
        return Path(chosen).absolute()
    if is_root:
        return Path("/var/lib/executor/images")
    return _home_dir(environment, "XDG_DATA_HOME", ".local/share") / "executor" / "images"


def cache_dir(environment: Mapping[str, str], *, is_root: bool) -> Path:
    """Below /var/cache for root, because apt downloads as its own unprivileged user, who cannot enter /root."""
    if is_root and not environment.get("XDG_CACHE_HOME"):
        return Path("/var/cache/executor/images")
    return _home_dir(environment, "XDG_CACHE_HOME", ".cache") / "executor" / "images"


def _home_dir(environment: Mapping[str, str], variable: str, default: str) -> Path:
    if chosen := environment.get(variable):
        return Path(chosen).absolute()
    home = environment.get("HOME")
    return (Path(home) if home else Path.home()) / default
