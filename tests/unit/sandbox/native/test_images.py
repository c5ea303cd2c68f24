import json

import pytest

from executor.model.errors import Misconfigured
from executor.sandbox.native import images
from executor.sandbox.native.plan import ImagePlan, Layer


@pytest.fixture
def image(tmp_path) -> ImagePlan:
    """/usr is a layer; /bin a link to it; `awk` a chain of links through /etc/alternatives."""
    usr = tmp_path / "usr"
    (usr / "bin").mkdir(parents=True)
    (usr / "bin" / "mawk").touch()
    (usr / "bin" / "awk").symlink_to("/etc/alternatives/awk")
    (usr / "bin" / "lost").symlink_to("/nowhere/lost")
    (usr / "bin" / "round").symlink_to("round")
    return ImagePlan(
        name="x",
        digest="d",
        layers=(Layer(source=str(usr), target="/usr"),),
        links={"bin": "usr/bin", "etc/alternatives/awk": "/usr/bin/mawk"},
        files={"etc/passwd": ""},
    )


@pytest.mark.parametrize("program", ["mawk", "awk", "/bin/mawk", "/usr/bin/awk", "/bin/awk", "/etc/passwd"])
def test_a_program_is_found_through_the_links_of_the_image(image, program):
    assert images.find_program(image, program)


@pytest.mark.parametrize("program", ["nope", "lost", "round", "/usr/bin/nope", "/bin/../../etc/shadow", "/root/x"])
def test_a_program_that_is_not_in_the_image_is_not_found(image, program):
    assert not images.find_program(image, program)


def test_the_host_image_holds_no_home_and_no_state_of_the_machine():
    image = images.host_image()
    targets = {layer.target for layer in image.layers}
    assert "/usr" in targets
    assert targets.isdisjoint({"/", "/home", "/root", "/var", "/etc", "/opt", "/srv", "/run", "/tmp"})
    assert image.files["etc/passwd"].startswith("sandbox:x:1000:1000:")
    assert not {name for name in image.files if "shadow" in name or "ssh" in name}


def test_the_host_image_has_the_interpreters_that_the_built_in_tools_use():
    image = images.host_image()
    assert images.find_program(image, "python3")
    assert images.find_program(image, "sh")


def test_a_built_image_is_known_by_its_description(tmp_path):
    place = tmp_path / "tools"
    (place / "rootfs").mkdir(parents=True)
    (place / "image.json").write_text(json.dumps({"name": "tools", "digest": "sha256:1", "environment": {"A": "b"}}))
    (tmp_path / ".tools-building").mkdir()
    [image] = images.built_images(tmp_path)
    assert (image.name, image.digest, image.environment) == ("tools", "sha256:1", {"A": "b"})
    assert image.layers == (Layer(source=str(place / "rootfs"), target="/"),)


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"name": "host", "digest": "d"}', '{"name": "a/b", "digest": "d"}']
)
def test_a_description_that_is_none_is_refused_with_its_path(tmp_path, content):
    place = tmp_path / "broken"
    (place / "rootfs").mkdir(parents=True)
    (place / "image.json").write_text(content)
    with pytest.raises(Misconfigured, match="broken"):
        images.built_images(tmp_path)


def test_a_directory_that_does_not_exist_holds_no_images(tmp_path):
    assert images.built_images(tmp_path / "absent") == []
