"""Peers that are libraries of Python: sandlock and llm-sandbox, called in threads, because their calls block.

They are loaded when they are asked to join, and what they raise is told as a failure or an absence.
"""

import asyncio
import importlib
import shlex
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from executor.bench.names import LLM_SANDBOX, SANDLOCK
from executor.bench.peer import NO_FILES, CallFailed, Party, compared
from executor.bench.roots import Root
from executor.bench.rows import HOST, Row
from executor.bench.spawned import inside

_TIMEOUT_SECONDS = 60
_READABLE = ("/usr", "/lib", "/lib64", "/bin", "/sbin", "/etc", "/proc", "/dev")
_WRITABLE = ("/tmp",)  # noqa: S108 - of the sandbox


@dataclass(frozen=True, slots=True)
class Sandlock:
    """Landlock and seccomp, no namespaces."""

    package: Any
    threads: ThreadPoolExecutor
    roots: Mapping[str, Root]
    name: str = SANDLOCK
    every: int = 1
    most_in_flight: int = 32
    processes: frozenset[int] = field(default_factory=frozenset)

    def refuses(self, row: Row) -> str | None:
        return None if row.argv else NO_FILES

    async def call(self, row: Row) -> Mapping[str, float]:
        root = self.roots[row.image]
        work = asyncio.get_running_loop().run_in_executor(self.threads, self._run, root, inside(root, row.argv))
        compared(row, *await work)
        return {}

    def _run(self, root: Root, argv: Sequence[str]) -> tuple[int, bytes]:
        """Exit status and output. Raises CallFailed."""
        place = {} if root.name == HOST else {"chroot": str(root.path)}
        options = {"fs_writable": list(_WRITABLE), "clean_env": True, "env": dict(root.environment)}
        try:
            sandbox = self.package.Sandbox(fs_readable=list(_READABLE), **place, **options)
            result = sandbox.run(argv, timeout=_TIMEOUT_SECONDS)
        except Exception as error:  # whatever a foreign library raises, the call has failed and says so
            raise CallFailed(f"{type(error).__name__}: {error}") from error
        return result.exit_code, result.stdout + result.stderr


@dataclass(frozen=True, slots=True)
class LlmSandbox:
    """A session for each call, with the library's bubblewrap backend."""

    package: Any
    threads: ThreadPoolExecutor
    name: str = LLM_SANDBOX
    every: int = 3
    most_in_flight: int = 8
    processes: frozenset[int] = field(default_factory=frozenset)

    def refuses(self, row: Row) -> str | None:
        if not row.argv:
            return NO_FILES
        return None if row.image == HOST else "its bubblewrap backend runs the host's programs alone"

    async def call(self, row: Row) -> Mapping[str, float]:
        compared(row, *await asyncio.get_running_loop().run_in_executor(self.threads, self._run, row.argv))
        return {}

    def _run(self, argv: Sequence[str]) -> tuple[int, bytes]:
        """Exit status and output. Raises CallFailed."""
        backend = self.package.SandboxBackend.BUBBLEWRAP
        try:
            with self.package.SandboxSession(backend=backend, lang="python", skip_environment_setup=True) as session:
                is_python = argv[0] == "python3"
                result = session.run(argv[-1]) if is_python else session.execute_command(shlex.join(argv))
        except Exception as error:  # whatever a foreign library raises, the call has failed and says so
            raise CallFailed(f"{type(error).__name__}: {error}") from error
        return result.exit_code, (result.stdout + result.stderr).encode()


async def join_sandlock(party: Party) -> None:
    library = _loaded(party, SANDLOCK, "sandlock")
    if library is not None:
        await _join(party, Sandlock(library, _threads(party), party.roots))


async def join_llm_sandbox(party: Party) -> None:
    library = _loaded(party, LLM_SANDBOX, "llm_sandbox")
    if library is not None:
        await _join(party, LlmSandbox(library, _threads(party)))


def _loaded(party: Party, name: str, module: str) -> Any:  # noqa: ANN401 - a foreign library
    try:
        return importlib.import_module(module)
    except ImportError as error:
        party.lacks(name, f"it is not installed ({error}); pip install --group bench")
        return None


def _threads(party: Party) -> ThreadPoolExecutor:
    return party.stack.enter_context(ThreadPoolExecutor(max_workers=32))


async def _join(party: Party, peer: Sandlock | LlmSandbox) -> None:
    try:
        await peer.call(_TRIED)
    except CallFailed as error:
        party.lacks(peer.name, f"it does not work here: {error}")
    else:
        party.peers.append(peer)


_TRIED = Row(name="tried", tool="true", argv=("true",))
