import json

import pytest

from executor.model.errors import Misconfigured
from executor.sandbox.native import images
from executor.sandbox.native.plan import ImagePlan, Layer, TemplatePlan


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
    assert image.templates == ()


def built(place, templates):
    (place / "rootfs").mkdir(parents=True)
    description = {"name": "tools", "digest": "sha256:1", "templates": templates}
    (place / "image.json").write_text(json.dumps(description))
    return images.built_images(place.parent)


def test_a_built_image_names_its_templates_and_keys_of_a_later_version_are_passed_over(tmp_path):
    entries = [
        {"name": "python", "interpreter": "/usr/bin/python3"},
        {"name": "data", "interpreter": "/usr/bin/python3", "modules": ["a", "b.c"], "warm": "x = 1", "later": 1},
    ]
    [image] = built(tmp_path / "tools", entries)
    assert image.templates == (
        TemplatePlan(name="python", interpreter="/usr/bin/python3"),
        TemplatePlan(name="data", interpreter="/usr/bin/python3", modules=("a", "b.c"), warm="x = 1"),
    )


@pytest.mark.parametrize(
    "entry",
    [
        "python",
        None,
        {},
        {"name": "data"},
        {"name": 1, "interpreter": "/usr/bin/python3"},
        {"name": "data", "interpreter": "python3"},
        {"name": "data", "interpreter": "/usr/bin/python3", "modules": "numpy"},
        {"name": "data", "interpreter": "/usr/bin/python3", "modules": [1]},
        {"name": "data", "interpreter": "/usr/bin/python3", "warm": None},
    ],
)
def test_a_template_that_is_none_is_refused_with_the_path_of_the_description(tmp_path, entry):
    with pytest.raises(Misconfigured, match=r"tools/image\.json: templates: .* build the image again"):
        built(tmp_path / "tools", [entry])


def test_two_templates_of_one_name_are_refused(tmp_path):
    entry = {"name": "python", "interpreter": "/usr/bin/python3"}
    with pytest.raises(Misconfigured, match=r"tools/image\.json: templates: two have the same name"):
        built(tmp_path / "tools", [entry, entry])


def with_python(place, version, **options):
    """An image where `python3` is a link to that file."""
    (place / "bin").mkdir()
    (place / "bin" / version).touch()
    (place / "bin" / "python3").symlink_to(version)
    return ImagePlan(name="x", digest="d", layers=(Layer(source=str(place), target="/usr"),), **options)


@pytest.mark.parametrize("version", ["python3.10", "python3.11", "python3.14"])
def test_a_python_that_can_be_a_template_is_one_by_its_path_on_the_search_path(tmp_path, version):
    assert images._host_templates(with_python(tmp_path, version)) == (
        TemplatePlan(name="python", interpreter="/usr/bin/python3"),
    )


@pytest.mark.parametrize("version", ["python3.9", "pypy3.10", "python", "python3.12-dbg"])
def test_a_python_that_is_old_or_another_or_does_not_say_is_no_template(tmp_path, version):
    assert images._host_templates(with_python(tmp_path, version)) == ()


def test_an_image_without_python_has_no_template(image):
    assert images._host_templates(image) == ()


def test_the_words_that_start_an_interpreter_are_told_apart_by_what_they_lead_to(tmp_path):
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "venv" / "bin" / "python").symlink_to("/usr/bin/python3")
    (tmp_path / "venv" / "pyvenv.cfg").touch()
    templates = tuple(
        TemplatePlan(name=f"t{number}", interpreter=path)
        for number, path in enumerate(["/usr/bin/python3.11", "/usr/venv/bin/python", "/usr/bin/lost"])
    )
    found = images.interpreters(with_python(tmp_path, "python3.11", templates=templates))
    assert set(found) == {"python3", "/usr/bin/python3.11", "/usr/venv/bin/python"}
    assert found["python3"] == found["/usr/bin/python3.11"] == "/usr/bin/python3.11"
    assert found["/usr/venv/bin/python"] != found["python3"]


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
