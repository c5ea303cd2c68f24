"""Exit statuses of the command line, and the errors that lead to them."""

from enum import IntEnum

from executor.model.errors import ExecutorError


class Exit(IntEnum):
    OK = 0
    """Completed, with exit code 0; or the command did what it is for."""
    NOT_OK = 1
    """Any other outcome; the lint found errors; this host lacks something."""
    MISUSE = 2
    """Of the command line."""
    UNAVAILABLE = 3
    """The service cannot be reached, or cannot run."""


class Misuse(ExecutorError):
    """The command line makes no sense; `str()` says why and what to write instead."""
