"""Limits, counters and directories of sandboxes, in the formats of v1 and v2, on trees of ordinary files."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor.sandbox.native.cgroups import (
    Cgroup,
    Counters,
    OpenHierarchy,
    limits,
    remove_base,
    remove_sandboxes,
    sweep,
)
from executor.sandbox.native.plan import Hierarchy

NOBODY = 2**22 + 1
"""A pid that no kernel gives."""


def hierarchy(base: Path, version: int = 2) -> Hierarchy:
    return Hierarchy(version=version, controllers=("memory",), base=str(base))


def counters(tmp_path: Path, /, **files: str) -> Counters:
    """Of the sandbox `s`; `__` in the name of a file stands for the dot."""
    (tmp_path / "s").mkdir()
    for name, content in files.items():
        (tmp_path / "s" / name.replace("__", ".")).write_text(content)
    return Counters([hierarchy(tmp_path)], "s")


# --- limits ---------------------------------------------------------------------------------------------------------


@given(memory=st.integers(1, 2**50), processes=st.integers(1, 10**6), cores=st.floats(0.001, 512))
def test_every_limit_is_a_number_and_the_same_for_both_versions(memory: int, processes: int, cores: float) -> None:
    values = limits(memory, processes, cores)
    assert values["memory.max"] == values["memory.limit_in_bytes"] == values["memory.memsw.limit_in_bytes"]
    assert values["memory.max"] == str(memory)
    assert values["memory.swap.max"] == "0"
    assert values["cpu.max"] == f"{values['cpu.cfs_quota_us']} {values['cpu.cfs_period_us']}"
    assert int(values["cpu.cfs_quota_us"]) >= 1000, "the kernel takes no less"


def test_the_init_of_a_sandbox_is_not_one_of_its_processes() -> None:
    assert limits(1, 8, 1)["pids.max"] == "9"


# --- counters -------------------------------------------------------------------------------------------------------


def test_processor_time_is_read_from_v2(tmp_path: Path) -> None:
    found = counters(tmp_path, cpu__stat="usage_usec 1500000\nuser_usec 1000000\nsystem_usec 500000\nnr_periods 3\n")
    assert found.cpu_seconds() == 1.5


def test_processor_time_is_read_from_v1_which_has_other_things_in_a_file_of_that_name(tmp_path: Path) -> None:
    found = counters(tmp_path, cpuacct__usage="250000000\n", cpu__stat="nr_periods 3\nnr_throttled 0\n")
    assert found.cpu_seconds() == 0.25


@pytest.mark.parametrize("file", ["memory__peak", "memory__max_usage_in_bytes"])
def test_the_peak_of_memory_is_read_from_both_versions(tmp_path: Path, file: str) -> None:
    assert counters(tmp_path, **{file: "1048576\n"}).peak_memory_bytes() == 1048576


def test_the_peak_of_processes_does_not_count_the_init(tmp_path: Path) -> None:
    assert counters(tmp_path, pids__peak="5\n").peak_processes() == 4


def test_memory_kills_are_read_from_v2(tmp_path: Path) -> None:
    events = "low 0\nhigh 0\nmax 41\noom 1\noom_kill 3\noom_group_kill 1\n"
    assert counters(tmp_path, memory__events=events).oom_kills() == 3


def test_memory_kills_are_read_from_v1(tmp_path: Path) -> None:
    control = "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"
    assert counters(tmp_path, memory__oom_control=control).oom_kills() == 2


def test_a_refused_process_is_counted(tmp_path: Path) -> None:
    assert counters(tmp_path, pids__events="max 7\n").pids_refused() == 7


def test_what_this_host_does_not_count_is_not_known_rather_than_nought(tmp_path: Path) -> None:
    found = counters(tmp_path)
    assert (found.cpu_seconds(), found.peak_memory_bytes(), found.peak_processes()) == (None, None, None)
    assert (found.oom_kills(), found.pids_refused(), found.processes()) == (0, 0, [])


def test_counters_of_a_group_that_is_gone_are_not_known(tmp_path: Path) -> None:
    assert Counters([hierarchy(tmp_path / "gone")], "s").cpu_seconds() is None


def test_v2_needs_no_event_for_memory(tmp_path: Path) -> None:
    assert counters(tmp_path, memory__events="oom_kill 0\n").oom_events() == -1


def test_a_kernel_of_v2_kills_the_tree_by_itself(tmp_path: Path) -> None:
    assert counters(tmp_path, cgroup__kill="").kill()
    assert (tmp_path / "s" / "cgroup.kill").read_text() == "1"


# --- one sandbox's directories --------------------------------------------------------------------------------------


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[list[OpenHierarchy]]:
    """One of v1, one of v2."""
    made = []
    for version in (1, 2):
        (tmp_path / f"v{version}").mkdir()
        made.append(OpenHierarchy.of(hierarchy(tmp_path / f"v{version}", version)))
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
    cgroup.make({"memory.max": "1"})
    assert list((tmp_path / "v1" / "s").iterdir()) == []


def test_a_sandbox_is_born_into_its_group_of_v2(tmp_path: Path, opened: list[OpenHierarchy]) -> None:
    cgroup = Cgroup(opened, "s")
    cgroup.make({})
    into = cgroup.into()
    try:
        assert os.path.samestat(os.fstat(into), (tmp_path / "v2" / "s").stat())
        assert not os.get_inheritable(into)
    finally:
        os.close(into)


def test_without_v2_a_sandbox_is_attached_after_its_birth(tmp_path: Path, opened: list[OpenHierarchy]) -> None:
    cgroup = Cgroup(opened[:1], "s")
    cgroup.make({})
    (tmp_path / "v1" / "s" / "cgroup.procs").write_text("")
    assert cgroup.into() == -1
    cgroup.attach(4711)
    assert (tmp_path / "v1" / "s" / "cgroup.procs").read_text() == "4711"


# --- what dead servers left -----------------------------------------------------------------------------------------


def own_namespace() -> int:
    return Path("/proc/self/ns/pid").stat().st_ino


def test_what_a_dead_server_left_is_swept_with_its_sandboxes(tmp_path: Path) -> None:
    (tmp_path / f"executor-{NOBODY}-ab-{own_namespace()}" / "sandbox-1").mkdir(parents=True)
    sweep(tmp_path, keep="executor-1-cd-1")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name",
    [
        f"executor-{os.getpid()}-ab-{own_namespace()}",
        f"executor-{NOBODY}-ab-{own_namespace() + 1}",
        f"executor-{NOBODY}-kept-{own_namespace()}",
        "executor-server",
        "somebody-else",
    ],
    ids=["of a living server", "of another pid namespace", "our own", "the leaf", "no name of ours"],
)
def test_sweeping_leaves_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    sweep(tmp_path, keep=f"executor-{NOBODY}-kept-{own_namespace()}")
    assert (tmp_path / name).is_dir()


@pytest.mark.parametrize("version", [1, 2])
def test_the_base_goes_after_its_sandboxes(tmp_path: Path, version: int) -> None:
    base = hierarchy(tmp_path / "executor-1", version)
    (tmp_path / "executor-1" / "sandbox-1").mkdir(parents=True)
    assert not remove_base([base])
    remove_sandboxes([base])
    assert remove_base([base])
    assert remove_base([base]), "what is gone is gone"
    assert list(tmp_path.iterdir()) == []
