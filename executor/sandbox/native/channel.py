"""The server's end of a launcher: starts it, asks it, hears from it. On the event loop; the asking never blocks."""

import asyncio
import contextlib
import io
import itertools
import os
import subprocess
import sys
import zipfile
from collections import deque
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

from executor.model.errors import Unavailable
from executor.sandbox.native import wire
from executor.sandbox.native.plan import LauncherPlan, SandboxPlan, encode

START_SECONDS = 15.0
MOST_PLANS = 256
"""Kinds of sandboxes that a launcher is told of and remembers."""
_IN_TEMPLATES = (
    "birth",
    "ending",
    "identity",
    "init",
    "interpreter",
    "mounts",
    "namespaces",
    "nursery",
    "rehearsal",
    "rlimits",
    "stage",
    "syscalls",
    "template",
    "wire",
)
_SITECUSTOMIZE = "from executor.sandbox.native import template\ntemplate.run()\n"


class LauncherDied(Exception):
    """The launcher is gone, and with it every sandbox that it made."""


class Channel:
    def __init__(self, on_template: Callable[[str, str, str], None] = lambda *_: None) -> None:
        """`on_template` is called with the image and the name of each template, and why it is not there: empty where it
        is.
        """
        self._on_template = on_template
        self._socket: Any = None
        self._process: subprocess.Popen[bytes] | None = None
        self._built: dict[int, asyncio.Future[tuple[int, int]]] = {}
        self._released: dict[int, asyncio.Future[None]] = {}
        self._to_release: list[int] = []
        self._unsent: deque[bytes] = deque()
        """What the launcher had no room for, in its order; it holds some hundred packets."""
        self._plans: dict[SandboxPlan, int] = {}
        self._plan_numbers = itertools.count()
        self._ready: asyncio.Future[None] | None = None
        self.generation = 0
        """Of the launcher: one that was started anew knows nothing of the sandboxes of the one before."""
        self.templates: dict[str, str] = {}
        """`image/template` -> why it is not there, empty where it is; those that have not yet told are absent."""

    async def start(self, plan: LauncherPlan, seccomp: bytes) -> None:
        """Raises Unavailable with the launcher's own words."""
        loop = asyncio.get_running_loop()
        self.generation += 1
        self.templates = {}
        self._plans.clear()
        ours, theirs = wire.pair()
        ours.setblocking(False)  # noqa: FBT003
        self._process = _spawn(theirs.fileno())
        theirs.close()
        self._socket = ours
        self._ready = loop.create_future()
        loop.add_reader(ours.fileno(), self._hear)
        files = tuple(_memory_file(content) for content in (encode(plan), seccomp, code_of_templates()))
        try:
            wire.send(ours, b"plan", files)
        finally:
            for fd in files:
                os.close(fd)
        try:
            await asyncio.wait_for(self._ready, START_SECONDS)
        except (LauncherDied, TimeoutError) as error:
            await self.stop()
            raise Unavailable(f"the launcher of the native backend did not start: {error or 'no answer'}") from error

    async def build(self, number: int, plan: SandboxPlan) -> tuple[int, int]:
        """(control socket, pidfd) of a new sandbox. Raises LauncherDied, or OSError with the launcher's reason."""
        order = wire.packed(("build", number, self._known(plan)))
        future = self._built[number] = asyncio.get_running_loop().create_future()
        try:
            self._send(order)
            control, pidfd = await future
        except LauncherDied:
            self._built.pop(number, None)
            raise
        except asyncio.CancelledError:
            _close_result(future)
            raise
        return control, pidfd

    async def release(self, sandbox_id: int) -> None:
        """Nothing of the sandbox is left when this returns."""
        if self._socket is None:
            return
        future = self._released[sandbox_id] = asyncio.get_running_loop().create_future()
        if not self._to_release:
            asyncio.get_running_loop().call_soon(self._send_releases)
        self._to_release.append(sandbox_id)
        with contextlib.suppress(LauncherDied):  # then it took the sandbox along
            await future

    def give_up(self, sandbox_id: int) -> None:
        """Where it waits for a template to bear this one, that template is ended."""
        with contextlib.suppress(LauncherDied):
            self._send(wire.packed(("give up", sandbox_id)))

    def _send_releases(self) -> None:
        """All that were asked for at this turn of the loop: each packet is a wake-up of the launcher."""
        numbers, self._to_release = tuple(self._to_release), []
        with contextlib.suppress(LauncherDied):  # those who wait are told by `_hear`
            self._send(wire.packed(("release", numbers)))

    def _known(self, plan: SandboxPlan) -> int:
        """Its number there; told once."""
        if plan not in self._plans:
            if len(self._plans) >= MOST_PLANS:
                self._plans.clear()
            number = next(self._plan_numbers) % MOST_PLANS
            self._send(encode(("plan", number, plan)))
            self._plans[plan] = number
        return self._plans[plan]

    async def stop(self) -> None:
        if self._socket is not None:
            self._hang_up()
        self._fail(LauncherDied("the launcher was stopped"))
        if self._process is not None:
            await asyncio.to_thread(self._process.wait)
            self._process = None

    @property
    def alive(self) -> bool:
        return self._socket is not None

    @property
    def building(self) -> int:
        """Sandboxes that it was asked for and has not made yet."""
        return len(self._built)

    def has_template(self, image: str, template: str) -> bool:
        return self.templates.get(f"{image}/{template}") == ""

    def _hang_up(self) -> None:
        asyncio.get_running_loop().remove_reader(self._socket.fileno())
        asyncio.get_running_loop().remove_writer(self._socket.fileno())
        self._unsent.clear()
        self._socket.close()
        self._socket = None

    def _send(self, data: bytes) -> None:
        """Now, or as soon as the launcher has room for it. Raises LauncherDied where it is known to be gone."""
        if self._socket is None:
            raise LauncherDied("the launcher is gone")
        self._unsent.append(data)
        if len(self._unsent) == 1:
            self._send_unsent()

    def _send_unsent(self) -> None:
        while self._unsent:
            try:
                wire.send(self._socket, self._unsent[0])
            except BlockingIOError:
                asyncio.get_running_loop().add_writer(self._socket.fileno(), self._has_room)
                return
            except OSError as error:
                self._hear()  # its last words
                self._is_gone(LauncherDied(str(error)))
                return
            self._unsent.popleft()

    def _has_room(self) -> None:
        asyncio.get_running_loop().remove_writer(self._socket.fileno())
        self._send_unsent()

    def _is_gone(self, error: LauncherDied) -> None:
        if self._socket is not None:
            self._hang_up()
            self._fail(error)

    def _hear(self) -> None:
        """As much as there is: a wake-up costs more than a packet."""
        while self._socket is not None:
            try:
                data, fds = wire.receive(self._socket, 2)
            except BlockingIOError:
                return
            except OSError:
                self._is_gone(LauncherDied("the launcher went away"))
                return
            self._take(data.decode(errors="surrogateescape"), fds)

    def _take(self, message: str, fds: tuple[int, ...]) -> None:
        word, _, rest = message.partition(" ")
        number, _, reason = rest.partition(" ")
        if word == "built":
            self._was_built(int(number), fds)
        elif word == "released":
            waiting = self._released.pop(int(number), None)
            if waiting is not None and not waiting.done():
                waiting.set_result(None)
        elif word == "failed":
            future = self._built.pop(int(number), None)
            if future is not None and not future.done():
                future.set_exception(OSError(reason))
        elif word == "template":
            self.templates[number] = reason
            image, _, template = number.partition("/")
            self._on_template(image, template, reason)
        elif self._ready and not self._ready.done():
            if word == "ready":
                self._ready.set_result(None)
            else:
                self._ready.set_exception(LauncherDied(rest))

    def _was_built(self, number: int, fds: tuple[int, ...]) -> None:
        future = self._built.pop(number, None)
        if future is None or future.done():
            for fd in fds:  # nobody waits any more
                os.close(fd)
        else:
            future.set_result((fds[0], fds[1]))

    def _fail(self, error: LauncherDied) -> None:
        waiting: list[asyncio.Future[Any]] = [
            *self._built.values(),
            *self._released.values(),
            *([self._ready] if self._ready else []),
        ]
        self._built.clear()
        self._released.clear()
        for future in waiting:
            if not future.done():
                future.set_exception(error)
                future.exception()  # asked for here, so that one nobody awaits is no warning


def _close_result(future: "asyncio.Future[tuple[int, int]]") -> None:
    """Of one whose caller was cancelled between its end and hearing of it."""
    if future.done() and not future.cancelled() and future.exception() is None:
        for fd in future.result():
            os.close(fd)


def _spawn(control: int) -> "subprocess.Popen[bytes]":
    """Without `site`, which would load what every sandbox then holds in memory."""
    root = str(Path(__file__).resolve().parents[3])
    code = f"import sys; sys.path.append({root!r}); from executor.sandbox.native.launcher import main; main({control})"
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-X", "utf8", "-c", code],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=(control,),
        start_new_session=True,
        env={"PATH": os.defpath, "LD_BIND_NOW": "1"},  # otherwise each fork looks its symbols up again
        cwd="/",
    )


def code_of_templates() -> bytes:
    """A zip archive that an image's interpreter imports `sitecustomize` from."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("sitecustomize.py", _SITECUSTOMIZE)
        for package in ("executor", "executor/sandbox", "executor/sandbox/native"):
            file.writestr(f"{package}/__init__.py", "")
        for module in _IN_TEMPLATES:
            source = (resources.files("executor.sandbox.native") / f"{module}.py").read_bytes()
            file.writestr(f"executor/sandbox/native/{module}.py", source)
    return archive.getvalue()


def _memory_file(content: bytes) -> int:
    fd = os.memfd_create("executor", os.MFD_CLOEXEC)
    with open(fd, "wb", closefd=False) as file:
        file.write(content)
    return fd
