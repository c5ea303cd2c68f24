import os

import pytest

from sandbox_images.builder.digest import digest, size_bytes


@pytest.fixture
def root(tmp_path):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("root")
    (tmp_path / "etc/link").symlink_to("passwd")
    return tmp_path


def test_times_do_not_matter(root):
    before = digest(root)
    os.utime(root / "etc/passwd", (1, 1))
    os.utime(root / "etc", (1, 1))
    assert digest(root) == before
    assert before.startswith("sha256:")


@pytest.mark.parametrize(
    "change",
    [
        lambda root: (root / "etc/passwd").write_text("toor"),
        lambda root: (root / "etc/passwd").chmod(0o755),
        lambda root: (root / "etc/passwd").rename(root / "etc/shadow"),
        lambda root: (root / "etc/empty").mkdir(),
        lambda root: os.mkfifo(root / "etc/pipe"),
        lambda root: [(root / "etc/link").unlink(), (root / "etc/link").symlink_to("shadow")],
    ],
    ids=["content", "mode", "path", "directory", "pipe", "link target"],
)
def test_what_a_sandbox_can_see_does_matter(root, change):
    before = digest(root)
    change(root)
    assert digest(root) != before


def test_a_file_with_two_names_counts_once_in_the_size(root):
    (root / "big").write_bytes(b"x" * 100_000)
    before = size_bytes(root)
    (root / "again").hardlink_to(root / "big")
    assert size_bytes(root) == before
