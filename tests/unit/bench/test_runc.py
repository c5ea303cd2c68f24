from dataclasses import replace
from pathlib import Path

from executor.bench.roots import Root
from executor.bench.runc import configuration

ROOT = Root(name="data", path=Path("/images/data/rootfs"), environment={"PATH": "/usr/bin"})


def test_a_configuration_has_the_command_the_environment_and_limits():
    made = configuration(ROOT, ["/usr/bin/true"])
    assert (made["process"]["args"], made["process"]["env"]) == (["/usr/bin/true"], ["PATH=/usr/bin"])
    assert made["process"]["user"]["uid"] != 0
    assert made["root"]["readonly"]
    assert all(made["linux"]["resources"].values())


def test_a_configuration_binds_the_directories_of_its_root_read_only(tmp_path):
    (tmp_path / "usr").mkdir()
    (tmp_path / "bin").symlink_to("usr/bin")
    made = configuration(replace(ROOT, path=tmp_path), ["/usr/bin/true"])
    bound = [mount for mount in made["mounts"] if mount["type"] == "bind"]
    assert [(mount["source"], mount["destination"]) for mount in bound] == [(str(tmp_path / "usr"), "/usr")]
    assert all("ro" in mount["options"] for mount in bound)
