"""Each program of the corpus ends the same way in a fresh interpreter and in a fork of a template. No sandbox is needed."""

import _socket
import contextlib
import functools
import io
import json
import marshal
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from executor.sandbox.native import interpreter
from tests.support.corpus import MAIN, Ended, Program, comparable, load

PATIENCE_SECONDS = 30
PROGRAMS = load()
SERVE = """
import _socket, marshal, os, sys
import interpreter

def serve(control):
    while True:
        data, ancillary, _, _ = control.recvmsg(200000, _socket.CMSG_SPACE(12))
        if not data:
            os._exit(0)
        streams = memoryview(ancillary[0][2]).cast("i").tolist()
        pid = os.fork()
        if pid == 0:
            os.setsid()
            for number, fd in enumerate(streams):
                os.dup2(fd, number)
            os.closerange(3, 100)
            control.detach()
            directory, arguments, environment = marshal.loads(data)
            os.chdir(directory)
            return arguments, environment
        for fd in streams:
            os.close(fd)
        control.send(b"%d" % pid)
        control.send(b"%d" % os.waitpid(pid, 0)[1])

control = _socket.socket(fileno=FILENO)
try:
    interpreter.preload(MODULES, WARM)
except Exception as error:
    control.send(f"{type(error).__name__}: {error}".encode())
    os._exit(1)
control.send(b"ready")
interpreter.settle(*serve(control))
"""
LOADED = (
    "argparse asyncio concurrent.futures.process contextlib csv ctypes dataclasses datetime decimal doctest email.message "
    "http.client importlib.metadata inspect json linecache logging.handlers multiprocessing.pool pickle platform queue "
    "random re socket sqlite3 ssl statistics subprocess tempfile textwrap threading traceback typing unittest urllib.request "
    "uuid warnings zipfile zoneinfo"
).split()
USED = """
import decimal, json, linecache, logging, random, re, tempfile, time, uuid, warnings
decimal.Decimal(1) / 3
uuid.uuid1(), uuid.uuid4(), random.gauss(0, 1), tempfile.gettempdir(), re.compile("x", re.I)
with tempfile.TemporaryFile(), warnings.catch_warnings():
    warnings.simplefilter("ignore")
    warnings.warn("in the template")
logging.getLogger("asyncio").debug("in the template")
vars(json)["__warningregistry__"] = {}
"""


@dataclass(frozen=True)
class Kind:
    """A template to be."""

    modules: Sequence[str] = ()
    warm: str = ""


KINDS = {
    "bare": Kind(),
    "loaded": Kind(LOADED, USED),
    "numpy": Kind(
        ("numpy", "numpy.random"),
        "import numpy; numpy.random.normal(), numpy.linalg.inv(numpy.eye(2)), numpy.ones(1) / 0",
    ),
}


class Interpreter:
    """A CPython of this host, and a directory that each program of it is run in: a path shows in what programs print."""

    def __init__(self, executable: str, room: Path) -> None:
        self.executable, self.room = executable, room
        self.environment = {
            "PATH": f"{Path(executable).parent}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(room),
            "LANG": "C.UTF-8",
            "OPENBLAS_NUM_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def furnish(self, program: Program) -> None:
        shutil.rmtree(self.room, ignore_errors=True)
        for path, content in {**program.files, MAIN: program.source}.items():
            place = self.room / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)

    @functools.cache  # noqa: B019 - both are few and live as long as the tests
    def fresh(self, name: str) -> Ended:
        program = BY_NAME[name]
        self.furnish(program)
        with subprocess.Popen(
            ["python3", MAIN, *program.arguments],
            executable=self.executable,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.room,
            env=self.environment,
            start_new_session=True,
        ) as process:
            try:
                stdout, stderr = process.communicate(program.stdin, timeout=PATIENCE_SECONDS)
            finally:
                process.kill()
        return Ended(stdout, stderr, process.returncode)


class Template:
    """An interpreter that is started once and forked for each program."""

    def __init__(self, interpreter: Interpreter, kind: Kind, archive: Path) -> None:
        """Raises RuntimeError with the template's own words where it cannot be one."""
        self._interpreter = interpreter
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.settimeout(PATIENCE_SECONDS)
        _pack(archive, kind, theirs.fileno())
        interpreter.room.mkdir(exist_ok=True)
        with theirs:
            self._process = subprocess.Popen(
                ["python3", MAIN],
                executable=interpreter.executable,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=interpreter.room,
                env=interpreter.environment | {"PYTHONPATH": str(archive)},
                pass_fds=[theirs.fileno()],
            )
        word = self._control.recv(65536)
        if word != b"ready":
            self.close()
            raise RuntimeError(word.decode())

    def run(self, program: Program) -> Ended:
        self._interpreter.furnish(program)
        stdin, stdout, stderr = os.pipe(), os.pipe(), os.pipe()
        order = marshal.dumps((str(self._interpreter.room), program.arguments, self._interpreter.environment), 4)
        theirs = (stdin[0], stdout[1], stderr[1])
        socket.send_fds(self._control, [order], theirs)
        for fd in theirs:
            os.close(fd)
        pid = int(self._control.recv(100))
        try:
            with open(stdin[1], "wb", buffering=0) as file, contextlib.suppress(BrokenPipeError):
                file.write(program.stdin)
            out, err = _drained(stdout[0], stderr[0])
            status = int(self._control.recv(100))
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            raise
        return Ended(out, err, os.waitstatus_to_exitcode(status))

    def close(self) -> None:
        self._control.close()
        self._process.kill()
        self._process.communicate()


BY_NAME = {program.name: program for program in PROGRAMS}


def _pack(archive: Path, kind: Kind, fileno: int) -> None:
    source = SERVE
    for word, value in (("FILENO", fileno), ("MODULES", list(kind.modules)), ("WARM", kind.warm)):
        source = source.replace(word, repr(value))
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("sitecustomize.py", source)
        file.write(str(interpreter.__file__), "interpreter.py")


def _drained(*fds: int) -> list[bytes]:
    """What comes from each to its end. Raises TimeoutError."""
    texts = {fd: io.BytesIO() for fd in fds}
    end = time.monotonic() + PATIENCE_SECONDS
    with selectors.DefaultSelector() as selector, contextlib.ExitStack() as stack:
        for fd in fds:
            stack.callback(os.close, fd)
            selector.register(fd, selectors.EVENT_READ)
        while selector.get_map():
            events = selector.select(end - time.monotonic())
            if not events:
                raise TimeoutError
            for key, _ in events:
                piece = os.read(key.fd, 65536)
                texts[key.fd].write(piece)
                if not piece:
                    selector.unregister(key.fd)
    return [text.getvalue() for text in texts.values()]


@functools.cache
def _has(executable: str, need: str) -> bool:
    if need == "semaphores":
        return os.access("/dev/shm", os.W_OK)
    test = f"sys.version_info >= ({need.replace('.', ',')})" if need[0].isdigit() else f"importlib.util.find_spec({need!r})"
    code = f"import importlib.util, sys; sys.exit(not {test})"
    return subprocess.run([executable, "-c", code], check=False).returncode == 0


def _interpreters() -> dict[str, str]:
    """Label -> path: the one that the tests run in, without its venv; the host's own; EXECUTOR_TEST_PYTHONS=PATH:PATH."""
    own = str(Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}")
    more = os.environ.get("EXECUTOR_TEST_PYTHONS", "").split(":")
    found: dict[str, str] = {}
    for label, path in {"own": own, "host": "/usr/bin/python3", **{name: name for name in more}}.items():
        if os.access(path, os.X_OK) and os.path.realpath(path) not in map(os.path.realpath, found.values()):
            found[label] = path
    return found


INTERPRETERS = _interpreters()


class Laboratory:
    """Interpreters and templates, each started when it is first asked for."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._templates: dict[tuple[str, str], Template] = {}

    @functools.cache  # noqa: B019 - there is one for all tests
    def interpreter(self, label: str) -> Interpreter:
        return Interpreter(INTERPRETERS[label], self._directory / f"room-{label.replace('/', '-')}")

    def template(self, label: str, kind: str) -> Template:
        if (label, kind) not in self._templates:
            archive = self._directory / f"{label.replace('/', '-')}-{kind}.zip"
            self._templates[label, kind] = Template(self.interpreter(label), KINDS[kind], archive)
        return self._templates[label, kind]

    def close(self) -> None:
        for template in self._templates.values():
            template.close()


def _cases() -> Iterator[tuple[str, str, str]]:
    for label, executable in INTERPRETERS.items():
        for program in PROGRAMS:
            if all(_has(executable, need) for need in program.needs):
                for kind in KINDS:
                    if kind != "numpy" or "numpy" in program.needs:
                        yield label, kind, program.name


@pytest.fixture(scope="module")
def laboratory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    with contextlib.closing(Laboratory(tmp_path_factory.mktemp("laboratory"))) as laboratory:
        yield laboratory


@pytest.mark.parametrize(("label", "kind", "name"), list(_cases()))
def test_a_fork_of_a_template_ends_as_a_fresh_start_does(laboratory, label, kind, name):
    program = BY_NAME[name]
    fresh = laboratory.interpreter(label).fresh(name)
    forked = laboratory.template(label, kind).run(program)
    assert fresh.status == program.status, fresh.stderr
    assert comparable(forked, program) == comparable(fresh, program)
