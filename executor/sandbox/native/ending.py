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

TYPE_CHECKING = False  # `typing` would be one more module that a program finds loaded
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

_SENTINEL = "_executor_end"
"""In `sys`, whose names CPython clears last; those with one underscore first."""


class _Template:
    modules: "dict[str, ModuleType]" = {}  # noqa: RUF012 - one for the process
    at_end: "Callable[[], None] | None" = None


class _End:
    """Ends the process when it is dropped."""

    def __init__(self) -> None:
        self._streams = (sys.__stdout__, sys.__stderr__)

    def __del__(self, leave: "Callable[[int], None]" = os._exit) -> None:
        try:
            for stream in self._streams:
                if stream is not None and not stream.closed:
                    stream.flush()
        except (OSError, ValueError):
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


def at_end(last: "Callable[[], None]") -> None:
    """Called when nothing else is left to be done."""
    _Template.at_end = last


def _end() -> None:
    main: Any = sys.modules.get("__main__")
    if main is None or not _came_to_its_end(vars(main)):
        return
    for name, module in _Template.modules.items():
        if sys.modules.get(name) is module:
            sys.modules[name] = None  # type: ignore[assignment]  # as CPython does with all
    setattr(sys, _SENTINEL, _End())


def _came_to_its_end(main: "dict[str, Any]") -> bool:
    """CPython takes these names away when the main file has run, but not where that ended by SystemExit; and it sets
    the others for an exception that nobody caught.
    """
    return not ("__file__" in main or "__cached__" in main or hasattr(sys, "last_type") or hasattr(sys, "last_value"))
