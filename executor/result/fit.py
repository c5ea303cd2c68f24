"""How much of a text can be shown in so many bytes, from its beginning or from its end. Pure.

The text may be far longer than what is shown of it, and made to be slow: it is looked at in blocks, only as far as
there is room, and each block is made neutral as a whole. Where one does not fit, its halves are tried.
"""

from typing import NamedTuple

from executor.result import neutral

_BLOCK = 1024
"""Characters. Other threads run between two blocks, and none is long enough to hold them up."""


class Part(NamedTuple):
    border: int
    """Where in the text the part ends that is shown (of a beginning), or begins (of an end)."""
    shown: str


def beginning(text: str, room: int) -> Part:
    """The longest beginning of `text` that is shown in `room` bytes."""
    at, shown, size = 0, list[str](), min(_BLOCK, room)
    while at < len(text) and size:
        _, end = neutral.parted(text, min(at + size, len(text)))
        block = neutral.neutralise(text[at:end])
        if (needed := len(block.encode())) <= room:
            shown.append(block)
            at, room = end, room - needed
        else:
            size //= 2
    return Part(at, "".join(shown))


def end(text: str, room: int) -> Part:
    """The longest end of `text` that is shown in `room` bytes."""
    at, shown, size = len(text), list[str](), min(_BLOCK, room)
    while at and size:
        start, _ = neutral.parted(text, max(at - size, 0))
        block = neutral.neutralise(text[start:at])
        if (needed := len(block.encode())) <= room:
            shown.append(block)
            at, room = start, room - needed
        else:
            size //= 2
    return Part(at, "".join(reversed(shown)))
