"""Which group of v2 is chosen, and what is written to it, on trees of ordinary files. What the kernel makes of that is
seen where the contract tests run on a host with v2.
"""

import os
from pathlib import Path

import pytest

from executor.sandbox.native.delegation import LEAF, candidates, make_place, move_back, remove_place

ALL = ("memory", "pids", "cpu")


def group(path: Path, *, controllers: str = "cpu memory pids", processes: str = "", marked: bool = False) -> Path:
    """As the kernel shows one that is not the root of the host."""
    path.mkdir(parents=True, exist_ok=True)
    for file, content in (
        ("cgroup.type", "domain\n"),
        ("cgroup.controllers", controllers),
        ("cgroup.procs", processes),
        ("cgroup.subtree_control", ""),
    ):
        (path / file).write_text(content)
    if marked:
        os.setxattr(path, "user.delegate", b"1")
    return path


@pytest.fixture
def point(tmp_path: Path) -> Path:
    """The root of a host."""
    root = group(tmp_path / "cgroup")
    (root / "cgroup.type").unlink()
    return root


@pytest.fixture(autouse=True)
def systemctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where one can be put; there is none at first."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}/bin")
    return tmp_path / "bin" / "systemctl"


def read(path: Path) -> list[str]:
    return path.read_text().split()


# --- the choice -----------------------------------------------------------------------------------------------------


def test_an_ordinary_user_gets_the_group_that_it_may_write_to(point: Path) -> None:
    here = group(point / "user.slice" / "u")
    assert candidates(point, here, as_root=False) == [here]


def test_an_ordinary_user_gets_nothing_where_it_may_not_write(point: Path) -> None:
    here = point / "user.slice" / "session-1.scope"
    group(here)
    (here / "cgroup.procs").unlink()  # for root every file that exists can be written
    assert candidates(point, here, as_root=False) == []


def test_an_ordinary_user_never_gets_the_root_of_the_host(point: Path) -> None:
    assert candidates(point, point, as_root=False) == []


@pytest.mark.parametrize(
    ("answer", "taken"),
    [
        ("LoadState=loaded\nDelegate=no\n", False),
        ("LoadState=loaded\nDelegate=yes\n", True),
        ("LoadState=not-found\nDelegate=no\n", True),
        ("", True),
    ],
    ids=["kept for itself", "delegated", "of another systemd", "no answer"],
)
def test_a_users_own_unit_is_taken_unless_its_systemd_keeps_it(
    point: Path, systemctl: Path, answer: str, *, taken: bool
) -> None:
    scope = group(point / "user@1000.service" / "app.slice" / "run-1.scope")
    systemctl.write_text(f"#!/bin/sh\nprintf '{answer}'\n")
    systemctl.chmod(0o755)
    assert candidates(point, scope, as_root=False) == ([scope] if taken else [])


def test_without_systemd_a_unit_that_can_be_written_to_is_taken(point: Path) -> None:
    scope = group(point / "libpod-1.scope")
    assert candidates(point, scope, as_root=False) == [scope]


@pytest.mark.parametrize("as_root", [False, True])
def test_a_server_that_starts_in_the_leaf_of_another_one_shares_its_group(point: Path, as_root: bool) -> None:  # noqa: FBT001
    whole = group(point / "executor.service", marked=True)
    assert candidates(point, group(whole / LEAF), as_root=as_root)[0] == whole


@pytest.mark.parametrize("as_root", [False, True])
def test_a_part_of_a_delegated_unit_leads_to_the_whole(point: Path, as_root: bool) -> None:  # noqa: FBT001
    whole = group(point / "executor.service", marked=True)
    assert candidates(point, group(whole / "main"), as_root=as_root)[0] == whole


def test_root_goes_to_the_root_of_the_host_where_nobody_told_it_otherwise(point: Path) -> None:
    assert candidates(point, group(point / "session-1.scope"), as_root=True) == [point]
    assert candidates(point, None, as_root=True) == [point]


def test_root_prefers_what_systemd_delegated_to_it(point: Path) -> None:
    here = group(point / "executor.service", marked=True)
    assert candidates(point, here, as_root=True) == [here, point]


@pytest.mark.parametrize("as_root", [False, True])
def test_a_container_uses_the_group_that_it_sees_as_its_root(tmp_path: Path, as_root: bool) -> None:  # noqa: FBT001
    inner = group(tmp_path)
    assert candidates(inner, inner, as_root=as_root) == [inner]


# --- making a place -------------------------------------------------------------------------------------------------


def test_controllers_are_switched_on_in_one_write_for_the_parent_and_for_the_place(point: Path) -> None:
    here = group(point / "u")
    place = make_place(point, here, "executor-1", ALL, as_root=False)
    assert place.base == here / "executor-1"
    assert place.refused == {}
    assert (here / "cgroup.subtree_control").read_text() == "+memory +pids +cpu"
    assert (here / "executor-1" / "cgroup.subtree_control").read_text() == "+memory +pids +cpu"


def test_what_is_on_already_is_not_written_again(point: Path) -> None:
    here = group(point / "u")
    (here / "cgroup.subtree_control").write_text("memory pids cpu")
    assert make_place(point, here, "executor-1", ALL, as_root=False).base
    assert (here / "cgroup.subtree_control").read_text() == "memory pids cpu"


def test_processes_of_a_group_that_was_given_move_into_a_leaf(point: Path) -> None:
    here = group(point / "u", processes="4711\n")
    assert make_place(point, here, "executor-1", ALL, as_root=False).base
    assert read(here / LEAF / "cgroup.procs") == ["4711"]


def test_a_process_that_our_pid_namespace_does_not_show_is_not_moved(point: Path) -> None:
    here = group(point / "u", processes="0\n")
    assert make_place(point, here, "executor-1", ALL, as_root=False).base
    assert not (here / LEAF / "cgroup.procs").exists(), "0 would mean ourselves"


def test_processes_in_the_root_of_the_host_stay_where_they_are(point: Path) -> None:
    (point / "cgroup.procs").write_text("1\n2\n")
    assert make_place(point, point, "executor-1", ALL, as_root=True).base == point / "executor-1"
    assert not (point / LEAF).exists()


def test_a_controller_that_was_not_given_is_refused_by_name_and_costs_no_other(point: Path) -> None:
    here = group(point / "u", controllers="memory pids")
    place = make_place(point, here, "executor-1", ALL, as_root=False)
    assert place.base == here / "executor-1"
    assert place.refused == {"cpu": f"{here} has no cpu controller"}


def test_root_takes_the_group_that_lacks_least(point: Path) -> None:
    here = group(point / "executor.service", controllers="memory", marked=True)
    place = make_place(point, here, "executor-1", ALL, as_root=True)
    assert (place.base, place.refused) == (point / "executor-1", {})


def test_where_nothing_was_delegated_the_reason_names_the_group(point: Path) -> None:
    here = group(point / "session-1.scope")
    (here / "cgroup.subtree_control").unlink()
    place = make_place(point, here, "executor-1", ALL, as_root=False)
    assert place.base is None
    assert place.refused == dict.fromkeys(ALL, f"{here} is not delegated to this user")


def test_where_our_own_group_is_not_shown_the_reason_says_so(point: Path) -> None:
    place = make_place(point, None, "executor-1", ALL, as_root=False)
    assert place.refused["memory"] == f"{point} does not show the cgroup of this process"


def test_a_place_that_cannot_be_made_is_refused_with_the_kernels_reason(point: Path) -> None:
    here = group(point / "u")
    (here / "executor-1").write_text("in the way")
    place = make_place(point, here, "executor-1", ALL, as_root=False)
    assert place.base is None
    assert place.refused["pids"] == f"{here}: File exists"


# --- and leaving it -------------------------------------------------------------------------------------------------


def test_the_last_one_to_go_moves_back_who_is_in_the_leaf(point: Path) -> None:
    here = group(point / "u")
    (here / "cgroup.subtree_control").write_text("memory pids")
    group(here / LEAF, processes="4711\n")
    move_back(here)
    assert (here / "cgroup.subtree_control").read_text() == "-memory -pids"
    assert read(here / "cgroup.procs") == ["4711"]


def test_a_group_that_somebody_else_uses_stays_as_it_is(point: Path) -> None:
    here = group(point / "u")
    (here / "cgroup.subtree_control").write_text("memory pids")
    group(here / LEAF, processes="4711\n")
    group(here / "executor-2")
    move_back(here)
    assert (here / "cgroup.subtree_control").read_text() == "memory pids"


def test_a_group_without_a_leaf_stays_as_it_is(point: Path) -> None:
    (point / "cgroup.subtree_control").write_text("memory")
    move_back(point)
    assert (point / "cgroup.subtree_control").read_text() == "memory"


def test_a_place_can_be_removed_twice(point: Path) -> None:
    (point / "executor-1").mkdir()
    remove_place(point / "executor-1")
    remove_place(point / "executor-1")
    assert not (point / "executor-1").exists()
