"""The words that a report is read by."""

from enum import StrEnum

OURS = "executor"
"""The whole service, called over gRPC on a Unix socket."""
SPAWN = "posix_spawn"
UNSHARE = "unshare"
BWRAP = "bubblewrap"
NSJAIL = "nsjail"
SANDLOCK = "sandlock"
RUNC = "runc"
DOCKER_RUN = "docker run"
DOCKER_EXEC = "docker exec"
LLM_SANDBOX = "llm-sandbox"
EVERYBODY = "all"
"""In an absence: a row that nobody can run here."""

IDLE_MEMORY = "idle memory"
"""In an absence: of our parked sandboxes."""

BARE = "bare"
"""A parked sandbox that will execute its program."""
PYTHON = "Python"
"""One that was forked from an interpreter."""
DATA_PYTHON = "data Python"
"""One that was forked from an interpreter with pandas imported."""


class Gap(StrEnum):
    PAUSES = "20-50 ms"
    """A pause of random length comes before each call, or before each salvo where several are in flight: as an agent
    calls, and what it costs to wake up."""
    NONE = "none"
    """A closed loop: the next call starts when one has ended."""
