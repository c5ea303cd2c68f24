from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from executor.client import ExecutorClient
from tests.support.served import Served, serving


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path) as service:
        yield service


@pytest.fixture
async def client(served: Served) -> AsyncIterator[ExecutorClient]:
    async with served.client() as one:
        yield one
