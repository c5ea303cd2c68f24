"""Fetches pinned wheels with pip and unpacks them where Debian's Python looks for local packages.

pip only downloads and checks hashes. It does not install: it would write scripts that name this host's Python.
Console scripts that a wheel merely declares are not made; a recipe may add one under `files`.
"""

import hashlib
import io
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

from .apt import Package
from .errors import BuildError
from .globs import Selection
from .recipe import Wheel
from .tree import Tree

_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
_GLIBC_MINORS = range(36, 16, -1)
"""manylinux_2_N tags that glibc 2.36, the oldest of a supported suite, can run."""


def site_packages(python: str) -> str:
    return f"usr/local/lib/python{python}/dist-packages"


def destination(name: str, python: str) -> str | None:
    """Where a member of a wheel goes; None for what has no place in an image (PEP 427 `.data` kinds)."""
    top, _, below = name.partition("/")
    if not top.endswith(".data"):
        return f"{site_packages(python)}/{name}"
    kind, _, rest = below.partition("/")
    roots = {
        "purelib": site_packages(python),
        "platlib": site_packages(python),
        "data": "usr/local",
        "scripts": "usr/local/bin",
    }
    return f"{roots[kind]}/{rest}" if kind in roots and rest else None


def own_interpreter(content: bytes) -> bytes:
    """A wheel's script starts with `#!python`, to be replaced by whoever installs it."""
    first, newline, rest = content.partition(b"\n")
    return b"#!/usr/bin/python3" + newline + rest if first.startswith(b"#!python") else content


def platforms(architecture: str) -> list[str]:
    machine = _MACHINES.get(architecture)
    if not machine:
        raise BuildError(f"wheels are known for {', '.join(_MACHINES)}, not for {architecture}: leave them out")
    return [*(f"manylinux_2_{minor}_{machine}" for minor in _GLIBC_MINORS), f"manylinux2014_{machine}"]


def fetch(wheels: Sequence[Wheel], python: str, architecture: str, cache: Path) -> list[Path]:
    """The files in the order of `wheels`, each with one of its pinned hashes."""
    cache.mkdir(parents=True, exist_ok=True)
    have = _by_hash(cache)
    missing = [wheel for wheel in wheels if not _found(wheel, have)]
    if missing:
        _download(missing, python, architecture, cache)
        have = _by_hash(cache)
    files = [_found(wheel, have) for wheel in wheels]
    return [file for file in files if file]


def unpack(wheel: Path, python: str, tree: Tree, selection: Selection) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            path = destination(member.filename, python)
            if path and path in selection and not member.is_dir():
                content = archive.read(member)
                is_script = path.startswith("usr/local/bin/")
                content = own_interpreter(content) if is_script else content
                is_executable = is_script or bool(member.external_attr >> 16 & 0o111)
                tree.file(path, io.BytesIO(content), is_executable=is_executable)


def described(wheel: Path) -> Package:
    name, version = wheel.name.split("-")[:2]
    return Package(name=name, version=version, sha256=_sha256(wheel), file=wheel.name)


def _download(wheels: Sequence[Wheel], python: str, architecture: str, cache: Path) -> None:
    pins = cache / "requirements.txt"
    pins.write_text(
        "".join(f"{w.requirement} {' '.join(f'--hash=sha256:{h}' for h in w.sha256)}\n" for w in wheels),
        encoding="utf-8",
    )
    chosen = [f"--platform={platform}" for platform in platforms(architecture)]
    target = ["--only-binary=:all:", f"--python-version={python}", "--implementation=cp", *chosen]
    options = ["--quiet", "--no-deps", "--require-hashes", "--disable-pip-version-check", f"--dest={cache}"]
    command = [sys.executable, "-m", "pip", "download", *options, *target, f"--requirement={pins}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        names = ", ".join(wheel.requirement for wheel in wheels)
        reasons = [line for line in done.stderr.splitlines() if not line.startswith("WARNING")]
        raise BuildError(f"pip could not download {names}: {' '.join(reasons)}")


def _found(wheel: Wheel, have: dict[str, Path]) -> Path | None:
    return next((have[sha256] for sha256 in wheel.sha256 if sha256 in have), None)


def _by_hash(cache: Path) -> dict[str, Path]:
    return {_sha256(path): path for path in sorted(cache.glob("*.whl"))}


def _sha256(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
