import json
from dataclasses import asdict

import pytest

from executor.model.limits import Limits
from executor.model.run import SandboxSpec
from executor.sandbox.native import cgroups
from executor.sandbox.native.identity import IdPool
from executor.sandbox.native.plan import (
    Hierarchy,
    ImagePlan,
    LauncherPlan,
    Layer,
    Rlimits,
    SandboxPlan,
    encode,
    launcher_plan_from,
    sandbox_plan_from,
)
from executor.sandbox.native.pool import kind_of


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
            ),
        ),
        hierarchies=(Hierarchy(version=1, controllers=("cpu",), base="/b"),),
        first_id=7,
        id_count=9,
    )
    again = launcher_plan_from(encode(plan))
    assert encode(again) == encode(plan)
    assert again.images[0].layers == plan.images[0].layers


def test_a_sandbox_plan_travels_unchanged():
    plan = SandboxPlan(
        sandbox_id=3,
        image="i",
        workspace_bytes=1,
        workspace_inodes=2,
        tmp_bytes=3,
        tmp_inodes=4,
        rlimits=Rlimits(open_files=5, file_bytes=6),
        cgroup={"pids.max": "7"},
    )
    assert sandbox_plan_from(json.loads(json.dumps(asdict(plan)))) == plan


def test_no_cgroup_limit_is_ever_unlimited():
    values = cgroups.limits(1, 1, 0.0001)
    assert not {"max", "-1", ""} & {value.split()[0] for value in values.values()}


def test_host_ids_are_given_out_once_and_never_zero():
    pool = IdPool(1_000_000, 3)
    taken = [pool.take() for _ in range(3)]
    assert sorted(taken) == [1_000_000, 1_000_001, 1_000_002]
    with pytest.raises(OSError, match="no free host id"):
        pool.take()
    pool.give_back(taken[1])
    assert pool.take() == taken[1]


def test_an_id_that_was_given_back_is_the_last_to_be_used_again():
    pool = IdPool(10, 3)
    first = pool.take()
    pool.give_back(first)
    assert [pool.take(), pool.take(), pool.take()][-1] == first


def test_sandboxes_are_of_one_kind_where_only_watched_limits_differ():
    plain = SandboxSpec(image="i", limits=Limits())
    assert kind_of(plain) == kind_of(SandboxSpec(image="i", limits=Limits(wall_seconds=1, output_bytes=5)))


@pytest.mark.parametrize(
    "other",
    [
        SandboxSpec(image="j", limits=Limits()),
        SandboxSpec(image="i", limits=Limits(memory_bytes=1)),
        SandboxSpec(image="i", limits=Limits(processes=1)),
        SandboxSpec(image="i", limits=Limits(workspace_bytes=1)),
        SandboxSpec(image="i", limits=Limits(open_files=1)),
        SandboxSpec(image="i", limits=Limits(cpu_cores=0.5)),
        SandboxSpec(image="i", limits=Limits(), network="other"),
    ],
)
def test_sandboxes_are_of_another_kind_where_something_fixed_at_birth_differs(other):
    assert kind_of(other) != kind_of(SandboxSpec(image="i", limits=Limits()))
