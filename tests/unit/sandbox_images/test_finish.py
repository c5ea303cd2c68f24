import pytest

from sandbox_images.builder.errors import BuildError
from sandbox_images.builder.finish import MOUNT_POINTS, finish
from sandbox_images.builder.recipe import parse
from sandbox_images.builder.tree import Tree

SMALLEST = "name: tiny\nsuite: bookworm\npackages: [bash]\n"


@pytest.fixture
def tree(tmp_path):
    tree = Tree(tmp_path)
    tree.merge_usr()
    return tree


def finished(tree, text):
    finish(parse(SMALLEST + text, "image.yaml"), tree)
    return tree.root


def test_every_mount_point_of_a_sandbox_exists_and_is_empty(tree):
    root = finished(tree, "links: {etc/mtab: /proc/self/mounts}")
    assert all((root / path).is_dir() for path in MOUNT_POINTS)
    assert not list((root / "proc").iterdir())


def test_a_file_that_names_its_interpreter_is_executable(tree):
    root = finished(tree, 'files: {usr/local/bin/x: "#!/bin/sh\\n", etc/x: "text"}')
    assert (root / "usr/local/bin/x").stat().st_mode & 0o111
    assert not (root / "etc/x").stat().st_mode & 0o111


def test_a_link_to_what_is_not_in_the_image_is_refused(tree):
    with pytest.raises(BuildError, match="usr/bin/awk: gawk is not in the image"):
        finished(tree, "links: {usr/bin/awk: gawk}")


def test_a_link_may_go_up_and_into_the_tree(tree):
    root = finished(tree, "files: {usr/share/zone: UTC}\nlinks: {etc/zone: ../usr/share/zone, zone: /usr/share/zone}")
    assert (root / "etc/zone").read_text() == "UTC"


def test_a_bundle_joins_its_files_in_the_order_of_their_names(tree):
    for name in ("b", "a"):
        (tree.root / f"usr/lib/{name}.crt").write_text(f"{name}\n\n")
    root = finished(tree, "bundles: {etc/all.crt: lib/*.crt}")
    assert (root / "etc/all.crt").read_text() == "a\nb\n"


def test_a_bundle_of_nothing_is_refused(tree):
    with pytest.raises(BuildError, match="no file matches"):
        finished(tree, "bundles: {etc/all.crt: usr/none/*.crt}")
