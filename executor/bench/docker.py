"""The peers `docker run` and `docker exec`, where an engine answers. They run the programs that everybody runs here: an
image is a few links, made on the spot without a registry, and the directories of the root are mounted into it.
"""

import asyncio
import io
import os
import shutil
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import psutil

from executor.bench.names import DOCKER_EXEC, DOCKER_RUN
from executor.bench.peer import NO_FILES, CallFailed, Party, compared
from executor.bench.roots import Root
from executor.bench.rows import Row
from executor.bench.spawned import inside

_ENGINE = ("dockerd", "containerd")
_LIMITS = ("--network", "none", "--read-only", "-m", "256m", "--pids-limit", "64")
_PATIENCE_SECONDS = 30.0
_HOW = "install docker.io and start it"


@dataclass(frozen=True, slots=True)
class Docker:
    name: str
    commands: Mapping[str, Sequence[str]]
    """By root: what comes before the command."""
    roots: Mapping[str, Root]
    processes: frozenset[int]
    """The engine's, to which the work falls."""
    every: int
    most_in_flight: int = 8

    def refuses(self, row: Row) -> str | None:
        return None if row.argv else NO_FILES

    async def call(self, row: Row) -> Mapping[str, float]:
        argv = inside(self.roots[row.image], row.argv)
        compared(row, *await _docker(*self.commands[row.image], *argv))
        return {}


async def join(party: Party) -> None:
    try:
        await _join(party)
    except CallFailed as error:
        for name in (DOCKER_RUN, DOCKER_EXEC):
            party.lacks(name, str(error))


async def _join(party: Party) -> None:
    """Raises CallFailed with the reason why neither can be measured."""
    if shutil.which("docker") is None:
        raise CallFailed(f"docker is not installed; {_HOW}")
    await _done("info", "--format", "{{.ServerVersion}}", otherwise=f"no engine answers; {_HOW}")
    fresh, kept = {}, {}
    for root in party.roots.values():
        image = f"executor-bench-{root.name}:{os.getpid()}"
        await _done("import", "-", image, stdin=image_of(root), otherwise="the image could not be made")
        party.stack.push_async_callback(_remove, party.troubles, "rmi", "--force", image)
        options = [*_LIMITS, *_mounts(root), image]
        fresh[root.name] = ["run", "--rm", *options]
        if sleep := root.program("sleep"):
            started = await _done(
                "run", "--detach", *options, sleep, "infinity", otherwise="no container could be kept"
            )
            container = started.splitlines()[-1]
            party.stack.push_async_callback(_remove, party.troubles, "rm", "--force", container)
            kept[root.name] = ["exec", container]
    engine = frozenset(p.pid for p in psutil.process_iter(["name"]) if p.info["name"] in _ENGINE)
    party.peers.append(Docker(DOCKER_RUN, fresh, party.roots, engine, every=10))
    if kept.keys() == fresh.keys():
        party.peers.append(Docker(DOCKER_EXEC, kept, party.roots, engine, every=5))
    else:
        party.lacks(DOCKER_EXEC, "a root has no sleep to keep a container with")


def _mounts(root: Root) -> list[str]:
    mounts = (("-v", f"{place}:/{name}:ro") for name, place in root.directories.items())
    environment = (("-e", f"{name}={value}") for name, value in root.environment.items())
    return [word for pair in (*mounts, *environment) for word in pair]


async def _remove(troubles: list[str], *words: str) -> None:
    try:
        await _done(*words, otherwise=f"{words[-1]} was left behind")
    except CallFailed as error:
        troubles.append(str(error))


def image_of(root: Root) -> bytes:
    """A tar file with the links of the root, and places for the mounts."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name in root.directories:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry)
        for name, target in root.links.items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            archive.addfile(entry)
    return stream.getvalue()


async def _done(*words: str, otherwise: str, stdin: bytes | None = None) -> str:
    """What it said. Raises CallFailed with `otherwise` and its last line where it failed."""
    status, output = await _docker(*words, stdin=stdin)
    said = output.decode(errors="replace").strip()
    if status:
        raise CallFailed(f"{otherwise}: {said.rpartition(chr(10))[2] or f'exit status {status}'}")
    return said


async def _docker(*words: str, stdin: bytes | None = None) -> tuple[int, bytes]:
    """Exit status, and stdout with stderr. Raises CallFailed where it does not end."""
    start = partial(asyncio.create_subprocess_exec, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT)
    reads = asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE
    process = await start("docker", *words, stdin=reads)
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
