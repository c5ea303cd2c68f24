import json

from executor.cli.doctor import show
from executor.cli.exits import Exit
from executor.sandbox.native.facilities import Facility

GOOD = Facility(name="seccomp", status="ok", detail="loaded")
ADVICE = Facility(name="vm.x", status="advice", detail="is 1", remedy="sysctl vm.x=0", required=False)
DEGRADED = Facility(name="cgroup memory", status="degraded", detail="not ours", remedy="delegate it")


def test_a_host_with_everything_gives_0(capsys):
    assert show([GOOD, ADVICE], as_json=False) is Exit.OK
    written = capsys.readouterr()
    assert "vm.x\tadvice\tis 1\tsysctl vm.x=0" in written.out
    assert "can enforce the defaults in full" in written.err


def test_a_host_that_lacks_something_gives_1_and_names_it(capsys):
    assert show([GOOD, DEGRADED], as_json=False) is Exit.NOT_OK
    assert "cannot enforce the defaults in full: cgroup memory" in capsys.readouterr().err


def test_json_has_the_verdict_and_every_facility(capsys):
    show([GOOD, DEGRADED], as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert told["enforceable"] is False
    assert [facility["name"] for facility in told["facilities"]] == ["seccomp", "cgroup memory"]
