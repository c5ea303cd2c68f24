"""Directories of sandboxes as the launcher makes, fills and removes them, on trees of ordinary files."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from executor.sandbox.native.cgroups import limits
from executor.sandbox.native.groups import NO_CPU_RATE, Cgroup, OpenHierarchy
from executor.sandbox.native.plan import Hierarchy


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[list[OpenHierarchy]]:
    """One of v1, one of v2."""
    made = []
    for version in (1, 2):
        (tmp_path / f"v{version}").mkdir()
        base = str(tmp_path / f"v{version}")
        made.append(OpenHierarchy(Hierarchy(version=version, controllers=("memory",), base=base)))
    yield made
    for one in made:
        os.close(one.directory)


def test_a_sandbox_has_a_directory_in_each_hierarchy_until_it_is_removed(
    tmp_path: Path, opened: list[OpenHierarchy]
) -> None:
    cgroup = Cgroup(opened, "s")
    cgroup.make(limits(1, 1, 1))
    assert (tmp_path / "v1" / "s").is_dir()
    assert (tmp_path / "v2" / "s").is_dir()
    assert cgroup.remove()
    assert not (tmp_path / "v1" / "s").exists()
    assert not (tmp_path / "v2" / "s").exists()
    assert cgroup.remove(), "what is gone is gone"


def test_a_limit_whose_file_a_hierarchy_does_not_have_is_left_to_another_one(
    tmp_path: Path, opened: list[OpenHierarchy]
) -> None:
    cgroup = Cgroup(opened, "s")
    cgroup.make([("memory.max", "1")])
    assert list((tmp_path / "v1" / "s").iterdir()) == []


def test_a_sandbox_is_born_into_its_group_of_v2(tmp_path: Path, opened: list[OpenHierarchy]) -> None:
    cgroup = Cgroup(opened, "s")
    cgroup.make([])
    into = cgroup.into()
    try:
        assert os.path.samestat(os.fstat(into), (tmp_path / "v2" / "s").stat())
        assert not os.get_inheritable(into)
    finally:
        os.close(into)


def test_without_v2_a_sandbox_is_attached_after_its_birth(tmp_path: Path, opened: list[OpenHierarchy]) -> None:
    cgroup = Cgroup(opened[:1], "s")
    cgroup.make([])
    (tmp_path / "v1" / "s" / "cgroup.procs").write_text("")
    assert cgroup.into() == -1
    cgroup.attach(4711, also_v2=False)
    assert (tmp_path / "v1" / "s" / "cgroup.procs").read_text() == "4711"


@pytest.mark.parametrize(("also_v2", "told"), [(False, ["v1"]), (True, ["v1", "v2"])])
def test_what_was_born_into_its_group_of_v2_is_attached_to_v1_alone(
    tmp_path: Path, opened: list[OpenHierarchy], *, also_v2: bool, told: list[str]
) -> None:
    cgroup = Cgroup(opened, "s")
    cgroup.make([])
    for version in ("v1", "v2"):
        (tmp_path / version / "s" / "cgroup.procs").write_text("")
    cgroup.attach(4711, also_v2=also_v2)
    assert [v for v in ("v1", "v2") if (tmp_path / v / "s" / "cgroup.procs").read_text() == "4711"] == told


def test_a_file_that_a_hierarchy_lacks_is_asked_for_once(tmp_path: Path, opened: list[OpenHierarchy]) -> None:
    Cgroup(opened, "s").make([("memory.max", "1")])
    assert [one.lacks for one in opened] == [{"memory.max"}, {"memory.max"}]
    cgroup = Cgroup(opened, "t")
    (tmp_path / "v1" / "t").mkdir()
    (tmp_path / "v1" / "t" / "memory.max").write_text("untouched")
    cgroup._write(opened[0], "memory.max", "1")
    assert (tmp_path / "v1" / "t" / "memory.max").read_text() == "untouched"


def test_a_group_that_is_gone_does_not_make_a_hierarchy_lack_its_files(opened: list[OpenHierarchy]) -> None:
    cgroup = Cgroup(opened, "s")
    with pytest.raises(FileNotFoundError):
        cgroup.attach(4711, also_v2=True)
    cgroup.lift_cpu_rate()
    assert [one.lacks for one in opened] == [set(), set()]


def test_a_tree_that_is_killed_has_all_the_processor_time(tmp_path: Path, opened: list[OpenHierarchy]) -> None:
    cgroup = Cgroup(opened, "s")
    cgroup.make([])
    (tmp_path / "v1" / "s" / "cpu.cfs_quota_us").write_text("")
    (tmp_path / "v2" / "s" / "cpu.max").write_text("")
    cgroup.lift_cpu_rate()
    assert (tmp_path / "v1" / "s" / "cpu.cfs_quota_us").read_text() == NO_CPU_RATE["cpu.cfs_quota_us"] == "-1"
    assert (tmp_path / "v2" / "s" / "cpu.max").read_text() == NO_CPU_RATE["cpu.max"] == "max"


def test_a_group_in_which_something_is_left_is_asked_again(tmp_path: Path, opened: list[OpenHierarchy]) -> None:
    cgroup = Cgroup(opened, "s")
    cgroup.make([])
    (tmp_path / "v2" / "s" / "on its way out").mkdir()
    assert not cgroup.remove()
    (tmp_path / "v2" / "s" / "on its way out").rmdir()
    assert cgroup.remove()
