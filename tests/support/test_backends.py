"""What cannot run here is never passed over in silence."""

import pytest

from executor.model.errors import Unavailable
from executor.sandbox.fake import FakeBackend
from tests.support.backends import start_or_skip

MISSING = "no cgroup controller `pids`"


async def test_a_missing_facility_skips_by_name(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match=MISSING):
        await start_or_skip(FakeBackend(unavailable=MISSING))


async def test_a_missing_facility_fails_where_ci_is_set(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CI", "true")
    with pytest.raises(Unavailable, match=MISSING):
        await start_or_skip(FakeBackend(unavailable=MISSING))
