"""JSON Pointer (RFC 6901), written for people: bounded."""

from collections.abc import Iterable

from executor.schema.nearest import brief

MAX_POINTER_CHARS = 500
"""A property name is the caller's text and may be a megabyte long."""


def pointer(path: Iterable[str | int]) -> str:
    """`""` is the whole document."""
    text = "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)
    return brief(text, MAX_POINTER_CHARS).encode("utf-8", "replace").decode()
