import stat

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


EDIT = "edits: [{path: usr/lib/x.py, old: 'read(a)', new: 'read(\"é\")'}]"


@pytest.mark.parametrize("mode", [0o644, 0o755])
def test_an_edit_changes_one_place_of_a_file_and_leaves_its_mode(tree, mode):
    place = tree.root / "usr/lib/x.py"
    place.write_text("read(a)\nread(b)\n")
    place.chmod(mode)
    root = finished(tree, EDIT)
    assert (root / "usr/lib/x.py").read_text(encoding="utf-8") == 'read("é")\nread(b)\n'
    assert stat.S_IMODE((root / "usr/lib/x.py").stat().st_mode) == mode


@pytest.mark.parametrize(("text", "count"), [("write(a)", 0), ("read(a); read(a)", 2)])
def test_an_edit_whose_text_is_not_there_just_once_is_refused(tree, text, count):
    (tree.root / "usr/lib/x.py").write_text(text)
    with pytest.raises(BuildError, match=rf"edits: usr/lib/x\.py: `old` stands there {count} times"):
        finished(tree, EDIT)


def test_an_edit_of_a_file_that_is_not_there_is_refused(tree):
    with pytest.raises(BuildError, match=r"edits: usr/lib/x\.py: no such file"):
        finished(tree, EDIT)


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
