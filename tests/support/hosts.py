"""What this host lacks for the service's defaults, and what the tests that can do without it then allow."""

import functools
import os

import pytest

from executor.sandbox.native.facilities import missing_controllers


@functools.cache
def allowance() -> dict[str, str]:
    """Environment for a service that is to run on this host all the same; empty where nothing is missing, and in CI."""
    missing = {} if os.environ.get("CI") else missing_controllers()
    return {"EXECUTOR_ALLOW_DEGRADED": ",".join(sorted(missing))} if missing else {}


def need_every_limit() -> None:
    """For tests of what this host may be unable to limit."""
    if allowance():
        pytest.skip(f"this host lets this user limit no {allowance()['EXECUTOR_ALLOW_DEGRADED']} of a process tree")
