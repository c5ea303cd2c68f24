import io
import stat

import pytest

from sandbox_images.builder.errors import BuildError
from sandbox_images.builder.tree import Tree


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "rootfs"
    root.mkdir()
    return Tree(root)


def write(tree, path, text="text", *, is_executable=False):
    tree.file(path, io.BytesIO(text.encode()), is_executable=is_executable)


def test_an_absolute_link_leads_to_the_tree_and_not_to_the_host(tree, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    tree.link("data", str(outside))
    write(tree, "data/x")
    assert not list(outside.iterdir())
    assert (tree.root / str(outside).lstrip("/") / "x").read_text() == "text"


def test_a_link_with_many_parents_stays_in_the_tree(tree, tmp_path):
    tree.link("up", "../../../..")
    write(tree, "up/x")
    assert (tree.root / "x").is_file()
    assert not (tmp_path / "x").exists()


def test_links_that_go_round_are_refused(tree):
    tree.link("a", "b")
    tree.link("b", "a")
    with pytest.raises(BuildError, match="goes round"):
        write(tree, "a/x")


def test_a_merged_usr_receives_what_is_written_to_bin(tree):
    tree.merge_usr()
    tree.directory("bin")
    write(tree, "bin/sh", is_executable=True)
    assert (tree.root / "bin").is_symlink()
    assert (tree.root / "usr/bin/sh").is_file()


@pytest.mark.parametrize(("is_executable", "mode"), [(True, 0o755), (False, 0o644)])
def test_every_file_is_readable_by_all_whatever_the_umask(tree, is_executable, mode):
    write(tree, "etc/deep/x", is_executable=is_executable)
    assert stat.S_IMODE((tree.root / "etc/deep/x").stat().st_mode) == mode
    assert stat.S_IMODE((tree.root / "etc/deep").stat().st_mode) == 0o755


def test_a_file_replaces_a_link_and_leaves_its_target_alone(tree):
    write(tree, "etc/real", "old")
    tree.link("etc/name", "real")
    write(tree, "etc/name", "new")
    assert (tree.root / "etc/real").read_text() == "old"
    assert (tree.root / "etc/name").read_text() == "new"


def test_a_replaced_link_is_not_remembered(tree):
    tree.link("a", "first")
    write(tree, "a/x")
    tree.link("a", "second")
    write(tree, "a/x")
    assert (tree.root / "second/x").is_file()


def test_an_empty_directory_gives_way_to_a_link_and_a_full_one_does_not(tree):
    tree.directory("lib/empty")
    tree.link("lib/empty", "full")
    write(tree, "lib/full/x")
    with pytest.raises(BuildError, match="lib/full: cannot become a link"):
        tree.link("lib/full", "empty")


def test_a_file_where_a_directory_is_or_below_a_file_is_refused(tree):
    write(tree, "a/x")
    with pytest.raises(BuildError, match="a directory is already there"):
        write(tree, "a")
    with pytest.raises(BuildError, match="lies below a/x, which is a file"):
        write(tree, "a/x/y")


@pytest.mark.parametrize("path", ["", ".", "..", "etc/..", "etc/"])
def test_a_path_without_a_name_is_refused(tree, path):
    with pytest.raises(BuildError, match="is no path of a file"):
        write(tree, path)


def test_a_hard_link_shares_its_file_and_needs_it(tree):
    write(tree, "usr/bin/perl")
    tree.hard_link("usr/bin/perl5", "usr/bin/perl")
    assert (tree.root / "usr/bin/perl5").samefile(tree.root / "usr/bin/perl")
    with pytest.raises(BuildError, match="hard link to /usr/bin/gone"):
        tree.hard_link("usr/bin/x", "usr/bin/gone")
