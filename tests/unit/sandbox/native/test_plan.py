from executor.sandbox.native import cgroups, wire
from executor.sandbox.native.plan import (
    Hierarchy,
    ImagePlan,
    LauncherPlan,
    Layer,
    Rlimits,
    SandboxPlan,
    TemplatePlan,
    encode,
)


def test_a_launcher_plan_travels_unchanged():
    plan = LauncherPlan(
        stage="/s",
        images=(
            ImagePlan(
                name="i",
                digest="d",
                layers=(Layer(source="/a", target="/"),),
                directories=("etc",),
                files={"f": "\xff"},
                templates=(TemplatePlan(name="t", interpreter="/usr/bin/python3", modules=("json",), warm="1\n"),),
            ),
        ),
        hierarchies=(Hierarchy(version=1, controllers=("cpu",), base="/b"),),
        first_id=7,
        id_count=9,
    )
    again = wire.unpacked(encode(plan))
    assert (again.stage, again.first_id, again.id_count) == ("/s", 7, 9)
    (image,) = again.images
    assert (image.name, image.digest, image.directories, image.links) == ("i", "d", ("etc",), {})
    assert image.files == {"f": "\xff"}
    assert [vars(layer) for layer in image.layers] == [{"source": "/a", "target": "/"}]
    assert [vars(template) for template in image.templates] == [
        {"name": "t", "interpreter": "/usr/bin/python3", "modules": ("json",), "warm": "1\n"}
    ]
    assert [vars(one) for one in again.hierarchies] == [{"version": 1, "controllers": ("cpu",), "base": "/b"}]


def test_a_sandbox_plan_travels_unchanged():
    plan = SandboxPlan(
        image="i",
        workspace_bytes=1,
        workspace_inodes=2,
        tmp_bytes=3,
        tmp_inodes=4,
        rlimits=Rlimits(open_files=5, file_bytes=6),
        template="t",
        cgroup=(("pids.max", "7"),),
    )
    again = vars(wire.unpacked(encode(plan)))
    rlimits = Rlimits(**vars(again.pop("rlimits")))
    assert SandboxPlan(**again, rlimits=rlimits) == plan


def test_no_cgroup_limit_is_ever_unlimited():
    values = dict(cgroups.limits(1, 1, 0.0001))
    assert not {"max", "-1", ""} & {value.split()[0] for value in values.values()}
