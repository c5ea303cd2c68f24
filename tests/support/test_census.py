"""A census that misses a leak would make every test that leans on it worthless."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory

import psutil
import pytest

from tests.support.census import NAMES, Census, census, difference, processes_with, settled

SLEEPER = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()", "executor.sleeper"]
"""Lives until its stdin is closed; prints a line once it runs."""


@pytest.fixture
def before() -> Census:
    return census()


def test_nothing_done_is_nothing_found(before: Census):
    assert settled(before) == {}


def test_a_child_process_is_found_and_its_end_is_waited_for(before: Census):
    child = subprocess.Popen(SLEEPER, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child.stdout.readline()
    assert [line.split()[1].split("@")[0] for line in difference(before, census())["processes"]] == [str(child.pid)]
    assert len(processes_with("executor.sleeper")) == 1
    child.communicate()
    assert settled(before) == {}


def orphan(*argv: str) -> psutil.Process:
    script = '"$@" >/dev/null 2>&1 & echo $!'
    shell = subprocess.run(["/bin/sh", "-c", script, "sh", *argv], stdout=subprocess.PIPE, check=True)
    return psutil.Process(int(shell.stdout))


def test_an_orphan_is_found_where_it_is_ours(before: Census):
    ours, stranger = orphan("/bin/sh", "-c", "sleep 60.8; :", "executor.orphan"), orphan("sleep", "60.9")
    try:
        found = difference(before, census())["processes"]
        assert any(line.startswith(f"+ {ours.pid}@") for line in found)
        assert not any(line.startswith(f"+ {stranger.pid}@") for line in found)
    finally:
        for process in (stranger, *ours.children(), ours):
            process.kill()
    assert settled(before) == {}


@pytest.mark.parametrize("name", NAMES)
def test_an_orphan_is_found_by_the_name_that_it_gave_itself(before: Census, name: str):
    code = f"import ctypes, time; ctypes.CDLL(None).prctl(15, {name.encode()!r}); time.sleep(60.7)"
    ours = orphan(sys.executable, "-c", code)
    try:
        deadline = time.monotonic() + 5
        while not any(line.startswith(f"+ {ours.pid}@") for line in difference(before, census()).get("processes", ())):
            assert time.monotonic() < deadline, "the orphan is not found"
    finally:
        ours.kill()
    assert settled(before) == {}


def test_a_descriptor_is_found(before: Census):
    with socket.socket():
        assert list(settled(before, 0.05)) == ["descriptors"]
    assert settled(before) == {}


def test_a_second_descriptor_of_the_same_file_is_found():
    with Path(os.devnull).open("rb"):
        before = census()
        with Path(os.devnull).open("rb"):
            assert list(difference(before, census())) == ["descriptors"]


def test_a_temporary_file_with_our_name_is_found(before: Census):
    with (
        TemporaryDirectory(prefix="executor-"),
        NamedTemporaryFile(dir="/dev/shm", prefix="executor-"),
    ):
        found = difference(before, census())
        assert len(found["files"]) == 2
    assert settled(before) == {}


def test_a_temporary_file_of_another_process_is_not_ours():
    with TemporaryDirectory(prefix="executor-") as directory:
        before = census()
        stranger = orphan("/bin/sh", "-c", "sleep 60.5; :", directory)
        try:
            assert before.files - census().files == {directory}
        finally:
            for process in (*stranger.children(), stranger):
                process.kill()


def test_a_mark_is_looked_for_beside_our_name():
    with TemporaryDirectory(prefix="marked-") as directory:
        assert census("marked-").files - census().files == {directory}


@pytest.mark.root
def test_a_mount_and_a_cgroup_are_found(before: Census, tmp_path: Path):
    place = tmp_path / "executor-mount"
    place.mkdir()
    hierarchy = next(
        line.split()[1]
        for line in Path("/proc/mounts").read_text().splitlines()
        if line.split()[2].startswith("cgroup")
    )
    group = Path(hierarchy) / f"executor-census-{os.getpid()}"
    subprocess.run(["mount", "-t", "tmpfs", "none", str(place)], check=True)  # noqa: S607 - wherever it is
    group.mkdir()
    try:
        assert sorted(difference(before, census())) == ["cgroups", "mounts"]
    finally:
        group.rmdir()
        subprocess.run(["umount", str(place)], check=True)  # noqa: S607 - wherever it is
    assert settled(before) == {}


def test_the_fixture_holds_for_a_test_that_cleans_up(no_leaks: None, tmp_path: Path):
    path = tmp_path / "executor-file"
    path.write_bytes(b"")
    assert path.exists()
