"""Values as canonical JSON: one text for one value. Digests and rendered templates are made of it."""

import json
from typing import Any

_EXACT = 2**53
"""Whole floats up to here are whole numbers in every JSON reader."""


def canonical_json(value: object) -> str:
    """Sorted keys, no white space, `1.0` as `1`. The value must be JSON: no NaN, no infinity."""
    return json.dumps(_canonical(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _canonical(value: object) -> Any:  # noqa: ANN401 - JSON is any
    match value:
        case float() if value.is_integer() and abs(value) <= _EXACT:
            return int(value)
        case dict():
            return {key: _canonical(item) for key, item in value.items()}
        case list() | tuple():
            return [_canonical(item) for item in value]
        case _:
            return value
