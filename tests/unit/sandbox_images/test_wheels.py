import zipfile

import pytest

from sandbox_images.builder.errors import BuildError
from sandbox_images.builder.globs import Selection
from sandbox_images.builder.tree import Tree
from sandbox_images.builder.wheels import described, destination, own_interpreter, platforms, unpack

SITE = "usr/local/lib/python3.11/dist-packages"


@pytest.mark.parametrize(
    ("member", "place"),
    [
        ("numpy/__init__.py", f"{SITE}/numpy/__init__.py"),
        ("six.py", f"{SITE}/six.py"),
        ("x-1.data/purelib/x.py", f"{SITE}/x.py"),
        ("x-1.data/scripts/x", "usr/local/bin/x"),
        ("x-1.data/data/share/x", "usr/local/share/x"),
        ("x-1.data/headers/x.h", None),
        ("x-1.data/scripts/", None),
    ],
)
def test_each_member_of_a_wheel_has_its_place(member, place):
    assert destination(member, "3.11") == place


def test_a_script_names_the_python_of_the_image():
    assert own_interpreter(b"#!python\nimport x\n") == b"#!/usr/bin/python3\nimport x\n"
    assert own_interpreter(b"#!/bin/sh\ntrue\n") == b"#!/bin/sh\ntrue\n"


def test_platforms_go_from_the_newest_glibc_to_the_oldest():
    names = platforms("arm64")
    assert names[0] == "manylinux_2_36_aarch64"
    assert names[-1] == "manylinux2014_aarch64"


def test_an_architecture_without_wheels_is_refused_by_name():
    with pytest.raises(BuildError, match="not for riscv64"):
        platforms("riscv64")


def test_a_wheel_is_unpacked_without_what_is_excluded(tmp_path):
    wheel = tmp_path / "tool-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tool/__init__.py", "")
        archive.writestr("tool/tests/test_x.py", "")
        archive.writestr("tool-1.0.data/scripts/tool", "#!python\n")
    root = tmp_path / "rootfs"
    root.mkdir()
    unpack(wheel, "3.11", Tree(root), Selection([f"{SITE}/**/tests"], []))
    assert (root / SITE / "tool/__init__.py").is_file()
    assert not (root / SITE / "tool/tests").exists()
    assert (root / "usr/local/bin/tool").stat().st_mode & 0o111
    assert (described(wheel).name, described(wheel).version) == ("tool", "1.0")
