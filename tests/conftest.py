"""Fixtures for every test. Helpers live in tests/support."""

import os
from collections.abc import Iterator

import pytest

from tests.support.census import census, settled


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.geteuid() != 0:
        for item in items:
            if item.get_closest_marker("root"):
                item.add_marker(pytest.mark.skip(reason="only root may do what this test does to look at it"))


@pytest.fixture
def no_leaks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fails the test that leaves a process, mount, cgroup, network namespace, descriptor or temporary file behind.

    Ask for it before whatever starts a server, so that it looks after that has stopped. It waits without giving way to
    an event loop: in a fixture of a loop use `settled` in a thread instead.
    """
    before = census(f"{tmp_path_factory.getbasetemp()}/")
    yield
    left = settled(before)
    assert left == {}, f"left behind: {left}"
