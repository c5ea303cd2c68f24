from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.served import Served, serving


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path) as service:
        yield service
