"""The kernel's tables of cgroups, as they are on hosts with v2, v1, both, and in containers."""

from pathlib import Path, PurePosixPath

from hypothesis import given
from hypothesis import strategies as st

from executor.sandbox.native.cgroup_mounts import Mounted, groups, mounted

UNIFIED = "35 24 0:30 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate"
MEMORY = "39 35 0:34 / /sys/fs/cgroup/memory rw,nosuid shared:15 - cgroup cgroup rw,memory"
CPU = "40 35 0:35 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct"
OTHER = "24 1 254:0 / / rw,relatime - ext4 /dev/root rw"
SEGMENT = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1).filter(
    lambda text: text not in (".", "..")
)


def seen(*lines: str) -> list[Mounted]:
    return list(mounted("\n".join(lines) + "\n"))


def below(root: str) -> Mounted:
    return Mounted(version=2, point=Path("/cg"), root=PurePosixPath(root), controllers=(), read_only=False)


def test_only_cgroup_file_systems_are_seen() -> None:
    assert [mount.point for mount in seen(OTHER, UNIFIED)] == [Path("/sys/fs/cgroup")]


def test_a_v2_mount_names_no_controllers() -> None:
    [mount] = seen(UNIFIED)
    assert (mount.version, mount.controllers, mount.read_only) == (2, (), False)


def test_v1_controllers_that_are_mounted_together_are_all_seen() -> None:
    memory, cpu = seen(MEMORY, CPU)
    assert memory.version == cpu.version == 1
    assert "memory" in memory.controllers
    assert {"cpu", "cpuacct"} <= set(cpu.controllers)


def test_a_mount_that_is_read_only_here_is_told_apart_from_a_file_system_that_is() -> None:
    here = UNIFIED.replace(" rw,nosuid", " ro,nosuid")
    whole = UNIFIED.replace("cgroup2 rw,", "cgroup2 ro,")
    assert [mount.read_only for mount in seen(here, whole, UNIFIED)] == [True, True, False]


def test_blanks_in_a_mount_point_are_unescaped() -> None:
    [mount] = seen(UNIFIED.replace("/sys/fs/cgroup", "/my\\040own\\134cgroups"))
    assert mount.point == Path("/my own\\cgroups")


def test_the_group_of_v2_has_no_name_and_those_of_v1_have_one_for_each_controller() -> None:
    table = "4:memory:/a/b\n3:cpu,cpuacct:/c\n1:name=systemd:/d\n0::/user.slice/x:y\n"
    assert groups(table) == {
        "memory": "/a/b",
        "cpu": "/c",
        "cpuacct": "/c",
        "name=systemd": "/d",
        "": "/user.slice/x:y",
    }


def test_a_group_is_found_below_the_mount_point() -> None:
    assert below("/").group("/system.slice/executor.service") == Path("/cg/system.slice/executor.service")
    assert below("/").group("/") == Path("/cg")


def test_a_container_sees_its_own_group_at_the_mount_point() -> None:
    assert below("/docker/abc").group("/docker/abc") == Path("/cg")
    assert below("/docker/abc").group("/docker/abc/inner") == Path("/cg/inner")


def test_a_group_that_is_not_shown_here_is_nowhere() -> None:
    assert below("/docker/abc").group("/docker/abcd") is None
    assert below("/docker/abc").group("/") is None
    assert below("/").group("/../other") is None, "of a process outside of this cgroup namespace"


@given(root=st.lists(SEGMENT, max_size=4), inner=st.lists(SEGMENT, max_size=4))
def test_a_group_below_the_root_keeps_its_way_from_there(root: list[str], inner: list[str]) -> None:
    own = "/" + "/".join(root + inner)
    assert below("/" + "/".join(root)).group(own) == Path("/cg", *inner)
