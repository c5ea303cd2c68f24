"""The census of a server must see what is planted anywhere in its tree, or every probe that leans on it is worthless.

The tree here is no server, only three processes in the places of one, of its launcher and of its template.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path

import grpc
import pytest

from executor.sandbox.native.namespaces import KEPT_NETWORKS
from tests.security import world
from tests.security.serving import Server

TREE = """
import ctypes, os, signal, sys

libc = ctypes.CDLL(None)
kept = []


def plant(*_):
    exec(sys.argv[1])
    os.write(1, b"planted\\n")


def begin(name):
    libc.prctl(15, name)
    libc.prctl(1, signal.SIGKILL)


signal.signal(signal.SIGUSR1, plant)
if os.fork() == 0:
    begin(b"executor-launch")
    if os.fork() == 0:
        begin(b"executor-bears")
    os.write(1, b"ready\\n")
while True:
    signal.pause()
"""
CHILD = "\nif os.fork() == 0:\n    libc.prctl(1, signal.SIGKILL)\n    "
BUSY = f"{CHILD}if os.fork() == 0:\n        begin(b'program')\n    signal.pause()"
IDLE = f"{CHILD}signal.pause()"
OPENED = "kept.append(os.open('/dev/zero', os.O_RDONLY))"
WATCHED = "kept.append(os.pidfd_open(os.getpid()))"
NETWORKS = "kept += [os.open('/proc/self/ns/net', os.O_RDONLY) for _ in range({})]"
MOUNTED = "libc.unshare(0x20000); libc.mount(b'none', b'/mnt', b'tmpfs', 0x40000, None)"

Grow = Callable[[str], AbstractContextManager[Server]]


@pytest.fixture
def grow(tmp_path: Path) -> Grow:
    """A tree that waits to be told to plant; `pool_size` of it allows for one parked sandbox."""

    @contextmanager
    def grow(planted: str) -> Iterator[Server]:
        argv = [sys.executable, "-c", TREE, planted]
        with (
            grpc.insecure_channel(f"unix:{tmp_path}/none") as channel,
            subprocess.Popen(argv, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as process,
        ):
            try:
                assert [process.stdout.readline() for _ in range(2)] == [b"ready\n"] * 2
                yield Server(
                    process=process, address="", directory=tmp_path, channel=channel, pool_size=1, pool_least=1
                )
            finally:
                process.kill()

    return grow


def pid_of(server: Server, role: str) -> int:
    found = world.sandboxes(server.pid)
    return {"server": (server.pid,), "launcher": found.launchers, "template": found.templates}[role][0]


def seen(server: Server, role: str) -> list[str]:
    """Kinds of difference once `role` has planted."""
    before = world.world(server)
    os.kill(pid_of(server, role), signal.SIGUSR1)
    assert server.process.stdout.readline() == b"planted\n"
    return sorted(world.difference(before, world.calm(server)))


def test_a_tree_is_told_by_its_places(grow: Grow):
    with grow("") as server:
        found = world.sandboxes(server.pid)
        assert (len(found.launchers), len(found.templates), found.parked, found.busy) == (1, 1, {}, ())
        assert seen(server, "server") == seen(server, "launcher") == seen(server, "template") == []


@pytest.mark.parametrize("planted", [OPENED, WATCHED], ids=["file", "process"])
@pytest.mark.parametrize("role", ["server", "launcher", "template"])
def test_a_descriptor_is_found(grow: Grow, role: str, planted: str):
    with grow(planted) as server:
        assert seen(server, role) == ["descriptors"]


@pytest.mark.parametrize("role", ["launcher", "template"])
def test_networks_are_found_where_they_are_more_than_may_be_kept(grow: Grow, role: str):
    with grow(NETWORKS.format(KEPT_NETWORKS)) as server:
        assert seen(server, role) == []
        assert seen(server, role) == ["descriptors"]


@pytest.mark.parametrize("role", ["launcher", "template"])
def test_a_sandbox_with_a_program_is_found(grow: Grow, role: str):
    with grow(BUSY) as server:
        assert seen(server, role) == ["processes"]
        assert len(world.busy_sandboxes(server)) == 1


@pytest.mark.parametrize("role", ["launcher", "template"])
def test_more_that_wait_than_a_pool_keeps_are_found(grow: Grow, role: str):
    with grow(IDLE) as server:
        assert "unpooled" not in seen(server, role)
        assert "unpooled" in seen(server, role)
        assert len(world.unclaimed(replace(server, pool_size=0), 0.0)) == 2
        assert len(world.unclaimed(replace(server, pool_size=9, pool_least=5), 0.0)) == 2
        assert world.unclaimed(replace(server, pool_size=9, pool_least=2), 0.0) == []


@pytest.mark.parametrize("role", ["launcher", "template"])
def test_a_parked_sandbox_without_what_one_has_is_found(grow: Grow, role: str):
    with grow(IDLE) as server:
        assert "descriptors" in seen(server, role)


@pytest.mark.root
@pytest.mark.parametrize("role", ["launcher", "template"])
def test_a_mount_is_found(grow: Grow, role: str):
    with grow(MOUNTED) as server:
        assert seen(server, role) == ["mounts"]


@pytest.mark.root
def test_a_cgroup_and_a_file_are_found(grow: Grow):
    with grow("") as server:
        hierarchy = next(base for base in world._hierarchies() if os.access(base, os.W_OK))
        group = Path(hierarchy, f"executor-{server.pid}-planted")
        group.mkdir()
        try:
            before = world.world(server)
            (group / "sandbox-1").mkdir()
            server.state_dir.mkdir()
            (server.state_dir / "left").write_bytes(b"")
            assert sorted(world.difference(before, world.world(server))) == ["cgroups", "files"]
        finally:
            (group / "sandbox-1").rmdir()
            group.rmdir()
