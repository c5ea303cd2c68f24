import os
import re
import subprocess
import sys

import pytest

from executor.ingress.calls import new_invocation_id


def test_invocation_ids_are_unique_and_in_the_order_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = []
    for milliseconds in (0, 1, 255, 256, 1_800_000_000_000, 2**47):
        monkeypatch.setattr("time.time_ns", lambda at=milliseconds: at * 1_000_000)
        ids += [new_invocation_id()]
        assert new_invocation_id() != ids[-1]
    assert ids == sorted(ids)
    assert all(re.fullmatch("inv_[0-9a-f]{32}", one) for one in ids)


@pytest.mark.parametrize("package", ["executor.ingress.server", "executor.client"])
def test_grpc_is_told_not_to_support_forks_before_it_is_imported(package: str) -> None:
    code = f"""
import sys, os
class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "grpc":
            print(os.environ.get("GRPC_ENABLE_FORK_SUPPORT"))
sys.meta_path.insert(0, Watch())
import {package}
"""
    environment = {name: value for name, value in os.environ.items() if name != "GRPC_ENABLE_FORK_SUPPORT"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "0\n"
