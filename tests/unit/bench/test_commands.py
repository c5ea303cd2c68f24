import io
import tarfile
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from executor.bench import commands, roots
from executor.bench.docker import image_of
from executor.bench.names import SPAWN
from executor.bench.peer import Party
from executor.bench.roots import Root
from executor.bench.rows import HOST

IMAGE = Root(name="data", path=Path("/images/data/rootfs"), environment={"PATH": "/usr/bin"})
HOST_ROOT = roots.find(Path("/nowhere"))[HOST]


def test_a_process_of_the_host_is_spawned_with_nothing_in_front():
    assert commands._spawn()(HOST_ROOT, ["/usr/bin/true"]) == ["/usr/bin/true"]


@pytest.mark.parametrize(
    "command",
    [
        commands._spawn(),
        commands._unshare("unshare"),
        commands._bwrap("bwrap"),
        commands._nsjail("nsjail", version_2=False),
    ],
)
def test_every_peer_runs_the_command_as_it_is_in_the_root_of_the_image(command):
    made = command(IMAGE, ["/usr/bin/python3", "-c", "print(1)"])
    assert made[-3:] == ["/usr/bin/python3", "-c", "print(1)"]
    assert any(str(IMAGE.path) in word for word in made[:-3])


def test_an_image_for_the_engine_has_the_links_of_the_root_and_places_for_its_directories(tmp_path):
    (tmp_path / "usr").mkdir()
    (tmp_path / "bin").symlink_to("usr/bin")
    root = Root(name="data", path=tmp_path, environment={})
    with tarfile.open(fileobj=io.BytesIO(image_of(root))) as archive:
        assert [(one.name, one.isdir(), one.linkname) for one in archive] == [
            ("usr", True, ""),
            ("bin", False, "usr/bin"),
        ]


async def test_a_peer_that_is_not_installed_is_absent_with_the_way_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setattr(commands, "PATH", str(tmp_path))
    async with AsyncExitStack() as stack:
        party = Party(stack, tmp_path, {HOST: HOST_ROOT})
        await commands.join(party)
    reasons = {one.peer: one.reason for one in party.absences}
    assert "apt-get install bubblewrap" in reasons["bubblewrap"]
    assert "apt-get install util-linux" in reasons["unshare"]
    assert SPAWN in {peer.name for peer in party.peers}


async def test_a_peer_that_does_not_work_in_a_root_is_absent_for_it_and_says_why(tmp_path):
    async with AsyncExitStack() as stack:
        party = Party(stack, tmp_path, {HOST: HOST_ROOT})
        await commands._join(party, "odd", lambda _, argv: ["/bin/sh", "-c", "echo no luck; exit 3", *argv])
    assert party.peers == []
    assert [one.reason for one in party.absences] == [
        "it does not work here with the image 'host': exit status 3, no luck"
    ]
