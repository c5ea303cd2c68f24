"""What a backend is. The session and the tests speak to this alone; native, docker and the fake implement it."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from executor.model.outcome import Isolation
from executor.model.run import Collection, Process, RunReport, SandboxSpec, StreamName

OnOutput = Callable[[StreamName, bytes], bool | None]
"""Called on the event loop with each piece as it is read, in order per stream; returns at once. True asks for a moment
of rest: what was read is still on its way to the disk.
"""


class Sandbox(Protocol):
    """The throwaway container of one invocation. One `run`, then `collect`, then `close`."""

    isolation: Isolation

    async def run(self, process: Process, on_output: OnOutput) -> RunReport:
        """Run the one command to its end or its limit. When this returns, its process tree is dead and every byte
        it wrote before, up to `limits.output_bytes`, has been given to `on_output`.

        Raises InvocationError: PAYLOAD_TOO_LARGE or SCHEMA_VIOLATION for input files that do not fit, and
        SANDBOX_UNAVAILABLE where the executor itself failed or closed the sandbox meanwhile; and CancelledError, after
        the tree is dead, where the caller went away. Never raises for anything the program did.
        """
        ...

    async def collect(self, globs: Sequence[str], exclude: Sequence[str]) -> Collection:
        """Regular files below /workspace that match, read by descriptor. After `run`, while nothing runs.

        Never follows a symbolic link; names of every kind are returned, escaped.
        """
        ...

    async def close(self) -> None:
        """Leave nothing behind. Idempotent; safe in any state; kills what still runs."""
        ...


class Backend(Protocol):
    name: str

    async def start(self) -> None:
        """Raises Unavailable, naming what this host cannot enforce and what to do about it."""
        ...

    async def stop(self) -> None:
        """Closes every sandbox that is open. Idempotent."""
        ...

    def images(self) -> Sequence[str]:
        """Names of the images this backend can open."""
        ...

    def has_program(self, image: str, program: str) -> bool:
        """Whether `program` (a name on PATH or an absolute path) exists in the image."""
        ...

    def expect(self, calls: Iterable[tuple[SandboxSpec, Sequence[str]]]) -> None:
        """Calls of these, each with its argv, may come at any time: what can be made ahead for them may be. Returns at
        once.
        """
        ...

    async def open(self, spec: SandboxSpec, process: Process | None = None) -> Sandbox:
        """A fresh sandbox. `process` is what will run there, where that is known: one that suits it may be chosen.

        Raises InvocationError(SANDBOX_UNAVAILABLE).
        """
        ...
