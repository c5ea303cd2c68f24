"""Limits and counters of sandboxes, in the formats of v1 and v2, on trees of ordinary files."""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor.sandbox.native.cgroups import (
    CounterFiles,
    Counters,
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


def fill(group: Path, **files: str) -> None:
    """`__` in the name of a file stands for the dot."""
    group.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (group / name.replace("__", ".")).write_text(content)


Make = Callable[..., Counters]


@pytest.fixture
def counters(tmp_path: Path) -> Iterator[Make]:
    """Of the sandbox `s`, with these files."""
    with contextlib.ExitStack() as opened:

        def make(**files: str) -> Counters:
            fill(tmp_path / "s", **files)
            return opened.enter_context(contextlib.closing(Counters(CounterFiles([hierarchy(tmp_path)]), "s")))

        yield make


# --- limits ---------------------------------------------------------------------------------------------------------


@given(memory=st.integers(1, 2**50), processes=st.integers(1, 10**6), cores=st.floats(0.001, 512))
def test_every_limit_is_a_number_and_the_same_for_both_versions(memory: int, processes: int, cores: float) -> None:
    values = dict(limits(memory, processes, cores))
    assert values["memory.max"] == values["memory.limit_in_bytes"] == values["memory.memsw.limit_in_bytes"]
    assert values["memory.max"] == str(memory)
    assert values["memory.swap.max"] == "0"
    assert values["cpu.max"] == f"{values['cpu.cfs_quota_us']} {values['cpu.cfs_period_us']}"
    assert int(values["cpu.cfs_quota_us"]) >= 1000, "the kernel takes no less"


def test_the_init_of_a_sandbox_is_not_one_of_its_processes() -> None:
    assert dict(limits(1, 8, 1))["pids.max"] == "9"


# --- counters -------------------------------------------------------------------------------------------------------


def test_processor_time_is_read_from_v2(counters: Make) -> None:
    found = counters(cpu__stat="usage_usec 1500000\nuser_usec 1000000\nsystem_usec 500000\nnr_periods 3\n")
    assert found.cpu_seconds() == 1.5


def test_processor_time_is_read_from_v1_which_has_other_things_in_a_file_of_that_name(counters: Make) -> None:
    found = counters(cpuacct__usage="250000000\n", cpu__stat="nr_periods 3\nnr_throttled 0\n")
    assert found.cpu_seconds() == 0.25


@pytest.mark.parametrize("file", ["memory__peak", "memory__max_usage_in_bytes"])
def test_the_peak_of_memory_is_read_from_both_versions(counters: Make, file: str) -> None:
    assert counters(**{file: "1048576\n"}).peak_memory_bytes() == 1048576


def test_the_peak_of_processes_does_not_count_the_init(counters: Make) -> None:
    assert counters(pids__peak="5\n").peak_processes() == 4


def test_memory_kills_are_read_from_v2(counters: Make) -> None:
    events = "low 0\nhigh 0\nmax 41\noom 1\noom_kill 3\noom_group_kill 1\n"
    assert counters(memory__events=events).oom_kills() == 3


def test_memory_kills_are_read_from_v1(counters: Make) -> None:
    control = "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"
    assert counters(memory__oom_control=control).oom_kills() == 2


def test_a_refused_process_is_counted(counters: Make) -> None:
    assert counters(pids__events="max 7\n").pids_refused() == 7


def test_what_this_host_does_not_count_is_not_known_rather_than_nought(counters: Make) -> None:
    found = counters()
    assert (found.cpu_seconds(), found.peak_memory_bytes(), found.peak_processes()) == (None, None, None)
    assert (found.oom_kills(), found.pids_refused(), found.processes()) == (0, 0, [])


def test_counters_of_a_group_that_is_gone_are_not_known(tmp_path: Path) -> None:
    assert Counters(CounterFiles([hierarchy(tmp_path / "gone")]), "s").cpu_seconds() is None


def test_counters_of_a_group_that_went_while_it_was_counted_are_not_known(tmp_path: Path, counters: Make) -> None:
    found = counters(pids__peak="5\n")
    shutil.rmtree(tmp_path / "s")
    found.close()
    assert found.peak_processes() is None


def test_what_making_the_sandbox_took_is_not_its_calls(tmp_path: Path, counters: Make) -> None:
    found = counters(cpuacct__usage="250000000\n")
    found.begin()
    fill(tmp_path / "s", cpuacct__usage="1000000000\n")
    assert found.cpu_seconds() == 0.75


def test_processor_time_that_was_never_counted_before_is_counted_from_nought(counters: Make) -> None:
    found = counters()
    found.begin()
    assert found.cpu_seconds() is None


def test_where_a_counter_is_is_found_out_once_for_all_sandboxes(tmp_path: Path) -> None:
    for base in ("one", "other"):
        (tmp_path / base / "s").mkdir(parents=True)
    fill(tmp_path / "other" / "s", memory__peak="1\n")
    fill(tmp_path / "other" / "t", memory__peak="2\n")
    files = CounterFiles(hierarchy(tmp_path / base) for base in ("one", "other"))
    with contextlib.closing(Counters(files, "s")) as s:
        assert s.peak_memory_bytes() == 1
    fill(tmp_path / "one" / "t", memory__peak="3\n")
    with contextlib.closing(Counters(files, "t")) as t:
        assert t.peak_memory_bytes() == 2


def test_a_tree_that_is_killed_has_all_the_processor_time(tmp_path: Path, counters: Make) -> None:
    found = counters(cpu__cfs_quota_us="100000\n", cpu__max="")
    found.lift_cpu_rate()
    assert (tmp_path / "s" / "cpu.max").read_text() == "max"
    assert (tmp_path / "s" / "cpu.cfs_quota_us").read_text().startswith("-1")


def test_v2_needs_no_event_for_memory(counters: Make) -> None:
    assert counters(memory__events="oom_kill 0\n").oom_events() == -1


def test_a_kernel_without_cgroup_kill_is_told_apart(tmp_path: Path) -> None:
    with contextlib.closing(Counters(CounterFiles([hierarchy(tmp_path / "gone")]), "s")) as found:
        assert not found.kill()


def test_the_processes_of_a_tree_are_listed(counters: Make) -> None:
    assert counters(cgroup__procs="7\n4711\n").processes() == [7, 4711]


def test_a_kernel_of_v2_kills_the_tree_by_itself(tmp_path: Path, counters: Make) -> None:
    assert counters(cgroup__kill="").kill()
    assert (tmp_path / "s" / "cgroup.kill").read_text() == "1"


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
