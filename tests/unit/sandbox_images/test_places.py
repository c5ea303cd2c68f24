from pathlib import Path

import pytest

from sandbox_images.builder.places import cache_dir, images_dir


@pytest.mark.parametrize(
    ("environment", "is_root", "expected"),
    [
        ({"EXECUTOR_IMAGES_DIR": "/srv/images"}, True, "/srv/images"),
        ({"HOME": "/root"}, True, "/var/lib/executor/images"),
        ({"HOME": "/home/u"}, False, "/home/u/.local/share/executor/images"),
        ({"HOME": "/home/u", "XDG_DATA_HOME": "/data"}, False, "/data/executor/images"),
        (
            {"HOME": "/home/u", "EXECUTOR_IMAGES_DIR": "", "XDG_DATA_HOME": ""},
            False,
            "/home/u/.local/share/executor/images",
        ),
    ],
)
def test_the_images_directory_follows_the_environment_and_the_user(environment, is_root, expected):
    assert images_dir(environment, is_root=is_root) == Path(expected)


@pytest.mark.parametrize(
    ("environment", "is_root", "expected"),
    [
        ({"HOME": "/root"}, True, "/var/cache/executor/images"),
        ({"HOME": "/root", "XDG_CACHE_HOME": "/cache"}, True, "/cache/executor/images"),
        ({"HOME": "/home/u"}, False, "/home/u/.cache/executor/images"),
    ],
)
def test_the_cache_of_root_lies_where_the_user_of_apt_can_go(environment, is_root, expected):
    assert cache_dir(environment, is_root=is_root) == Path(expected)
