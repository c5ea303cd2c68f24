import pytest

from sandbox_images.builder.errors import BuildError
from sandbox_images.builder.store import locked, metadata, staged


def make(images, text):
    with staged(images, "tiny") as stage:
        (stage / "rootfs").mkdir()
        (stage / "image.json").write_text(text)


def test_an_image_appears_as_a_whole_and_replaces_the_one_before(tmp_path):
    make(tmp_path, '{"digest": "one"}')
    make(tmp_path, '{"digest": "two"}')
    assert metadata(tmp_path / "tiny") == {"digest": "two"}
    assert [path.name for path in tmp_path.iterdir()] == ["tiny"]


def fail(images):
    with staged(images, "tiny") as stage:
        (stage / "rootfs").mkdir()
        raise BuildError("no")


def test_a_build_that_fails_leaves_the_image_as_it_was(tmp_path):
    make(tmp_path, '{"digest": "one"}')
    with pytest.raises(BuildError):
        fail(tmp_path)
    assert metadata(tmp_path / "tiny") == {"digest": "one"}
    assert [path.name for path in tmp_path.iterdir()] == ["tiny"]


def test_what_a_killed_build_left_is_removed_by_the_next(tmp_path):
    (tmp_path / ".tiny-abandoned/rootfs").mkdir(parents=True)
    make(tmp_path, "{}")
    assert [path.name for path in tmp_path.iterdir()] == ["tiny"]


@pytest.mark.parametrize("text", ["", "[]", "{"])
def test_an_image_without_readable_metadata_is_none(tmp_path, text):
    make(tmp_path, text)
    assert metadata(tmp_path / "tiny") is None
    assert metadata(tmp_path / "absent") is None


def test_a_directory_that_cannot_be_made_is_refused_with_its_remedy(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(BuildError, match=r"file/images: cannot be written .*; choose another"),
        locked(tmp_path / "file/images", "choose another"),
    ):
        pytest.fail("the lock was taken")
