"""The peer `docker run`, where an engine answers. It runs the host's own programs, as everybody else here: its image is
a few links, made on the spot without a registry, and the host's directories are mounted into it.
"""

import asyncio
import io
import os
import shutil
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from .lines import DOCKER, Absence
from .peer import CallFailed, Party
from .rows import Row
from .spawned import SEARCH_PATH

_TOP = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_ENGINE = ("dockerd", "containerd")
_FLAGS = ("--rm", "--network", "none", "--read-only", "-m", "256m", "--pids-limit", "64")
_PATIENCE_SECONDS = 30.0
_SHOWN_BYTES = 300


@dataclass(frozen=True, slots=True)
class Docker:
    command: tuple[str, ...]
    processes: frozenset[int]
    """The engine's, to which the work falls."""
    name: str = DOCKER
    every: int = 10
    most_in_flight: int = 2

    def refuses(self, row: Row) -> str | None:
        return None if row.argv else "it has no way to be given files and to give some back"

    async def call(self, row: Row) -> Mapping[str, float]:
        status, output = await _docker(*self.command, *row.argv)
        if status or output != row.stdout:
            raise CallFailed(f"exit status {status}, output {output[:_SHOWN_BYTES]!r}")
        return {}


async def join(party: Party) -> None:
    reason = await _why_not()
    if reason:
        party.absences.append(Absence(peer=DOCKER, row=None, reason=reason))
        return
    image = f"executor-bench:{os.getpid()}"
    links, directories = _host_top()
    status, said = await _docker("import", "-", image, stdin=_image(links, directories))
    if status:
        told = said.decode(errors="replace").strip()
        party.absences.append(Absence(peer=DOCKER, row=None, reason=f"the image could not be made: {told}"))
        return
    party.stack.push_async_callback(_remove, image, party.troubles)
    mounts = (word for path in directories for word in ("-v", f"{path}:{path}:ro"))
    command = ("run", *_FLAGS, *mounts, "-e", f"PATH={SEARCH_PATH}", image)
    engine = frozenset(p.pid for p in psutil.process_iter(["name"]) if p.info["name"] in _ENGINE)
    party.peers.append(Docker(command, engine))


async def _why_not() -> str | None:
    if shutil.which("docker") is None:
        return "docker is not installed"
    try:
        status, said = await _docker("info", "--format", "{{.ServerVersion}}")
    except CallFailed as error:
        return str(error)
    words = said.decode(errors="replace").strip().splitlines()
    return f"no engine answers: {words[-1] if words else 'docker info failed'}" if status else None


async def _remove(image: str, troubles: list[str]) -> None:
    status, said = await _docker("rmi", "--force", image)
    if status:
        troubles.append(f"the image {image} was left behind: {said.decode(errors='replace').strip()}")


def _host_top() -> tuple[dict[str, str], list[str]]:
    """Links at the root of this host, and the directories that hold its programs."""
    places = [Path("/", name) for name in _TOP]
    links = {place.name: os.readlink(place) for place in places if place.is_symlink()}  # noqa: PTH115 - as it is written
    return links, ["/usr", *(str(place) for place in places if place.is_dir() and not place.is_symlink())]


def _image(links: Mapping[str, str], directories: list[str]) -> bytes:
    """A tar file with the links, and places for the mounts."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name in directories:
            entry = tarfile.TarInfo(name.strip("/"))
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry)
        for name, target in links.items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            archive.addfile(entry)
    return stream.getvalue()


async def _docker(*words: str, stdin: bytes | None = None) -> tuple[int, bytes]:
    """Exit status, and stdout with stderr. Raises CallFailed where it does not end."""
    process = await asyncio.create_subprocess_exec(
        "docker",
        *words,
        stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            output, _ = await process.communicate(stdin)
    except TimeoutError:
        raise CallFailed(f"`docker {words[0]}` did not end within {_PATIENCE_SECONDS:g} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode or 0, output
