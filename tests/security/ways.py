"""The ways in which every probe runs."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How a server makes its sandboxes."""

    environment: dict[str, str]
    prepared: str
    """What it tells of a Python program's sandbox, once it is warm."""


WAYS = {
    "pooled": Way(environment={}, prepared="pooled+template:python"),
    "on demand": Way(
        environment={"EXECUTOR_POOL_SIZE": "0", "EXECUTOR_TEMPLATES": "false"},
        prepared="on_demand",
    ),
}
