"""A short end for a forked interpreter. CPython clears all that it ever made when it ends, which in a fork copies
page after page of what the template holds, for nobody's benefit: it takes longer than most programs.

So where a program came to the end of its main file, everything that it can notice is done as ever (threads are
joined, what is registered with `atexit` runs, modules are cleared, what was made is finalised, streams are flushed),
but the template's own modules are left as they are, and when only CPython's own memory is left the process ends. Any
other end is CPython's whole one. Imported by templates: builtin modules only.
"""

import atexit
import os
import sys
from io import TextIOWrapper

TYPE_CHECKING = False  # `typing` would be one more module that a program finds loaded
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

_SENTINEL = "_executor_end"
"""In `sys`, whose names CPython clears last; those with one underscore first."""


class _Template:
    modules: "dict[str, ModuleType]" = {}  # noqa: RUF012 - one for the process
    before_end: "Callable[[], None] | None" = None
    at_end: "Callable[[], None] | None" = None


class _End:
    """Ends the process when it is dropped."""

    def __init__(self) -> None:
        self._streams = (sys.stdout, sys.stderr)

    def __del__(self, leave: "Callable[[int], None]" = os._exit) -> None:
        if not _flushed(self._streams):
            return  # CPython tells it, in its own words and with its own exit status
        if _Template.at_end:
            _Template.at_end()
        leave(0)


def arrange() -> None:
    """In the template, before any of its modules registers anything: what is registered first runs last."""
    atexit.register(_end)


def keep() -> None:
    """In the template, when all is loaded: what is loaded now stays as it is at the end."""
    apart = {"__main__", "sys", "builtins"}
    _Template.modules = {name: module for name, module in sys.modules.items() if name not in apart}


def watch(before: "Callable[[], None]", at: "Callable[[], None]") -> None:
    """`before` is called when a program has come to its end, `at` when nothing else is left to be done."""
    _Template.before_end, _Template.at_end = before, at


def _end() -> None:
    main: Any = sys.modules.get("__main__")
    if main is None or not _came_to_its_end(vars(main)) or not _flushed((sys.stdout, sys.stderr)):
        return
    if _Template.before_end:
        _Template.before_end()
    for name, module in _Template.modules.items():
        if sys.modules.get(name) is module:
            sys.modules[name] = None  # type: ignore[assignment]  # as CPython does with all
    setattr(sys, _SENTINEL, _End())


def _flushed(streams: "tuple[Any, ...]") -> bool:
    """False where one cannot be, or is of a kind that may do something else when it is asked to."""
    for stream in streams:
        if stream is None:
            continue
        if type(stream) is not TextIOWrapper:
            return False
        try:
            if not stream.closed:
                stream.flush()
        except (OSError, ValueError):
            return False
    return True


def _came_to_its_end(main: "dict[str, Any]") -> bool:
    """CPython takes these names away when the main file has run, but not where that ended by SystemExit; and it sets
    the others for an exception that nobody caught.
    """
    return not ("__file__" in main or "__cached__" in main or hasattr(sys, "last_type") or hasattr(sys, "last_value"))
