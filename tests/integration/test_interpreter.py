"""Each program of the corpus ends in a fork of a template as it does in a fresh interpreter. No sandbox is needed."""

import contextlib
import functools
import io
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
LOADED = [
    "argparse",
    "asyncio",
    "concurrent.futures.process",
    "contextlib",
    "csv",
    "ctypes",
    "dataclasses",
    "datetime",
    "decimal",
    "doctest",
    "email.message",
    "http.client",
    "importlib.metadata",
    "inspect",
    "json",
    "linecache",
    "logging.handlers",
    "multiprocessing.pool",
    "pickle",
    "platform",
    "queue",
    "random",
    "re",
    "socket",
    "sqlite3",
    "ssl",
    "statistics",
    "subprocess",
    "tempfile",
    "textwrap",
    "threading",
    "traceback",
    "typing",
    "unittest",
    "urllib.request",
    "uuid",
    "warnings",
    "zipfile",
    "zoneinfo",
]
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
    streams: int = subprocess.PIPE
    """What its own are; those of its children are pipes."""


KINDS = {
    "bare": Kind(streams=subprocess.DEVNULL),
    "loaded": Kind(LOADED, USED),
    "numpy": Kind(
        ("numpy", "numpy.random"),
        "import numpy; numpy.random.normal(), numpy.linalg.inv(numpy.eye(2)), numpy.ones(1) / 0",
    ),
}


class Interpreter:
    """A CPython of this host, and the one directory that it runs each program in: its path shows in what they print."""

    def __init__(self, executable: str, room: Path) -> None:
        self.executable, self.room = executable, room
        self._ended: dict[str, Ended] = {}
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

    def fresh(self, program: Program) -> Ended:
        if program.name not in self._ended:
            self._ended[program.name] = self._run(program)
        return self._ended[program.name]

    def _run(self, program: Program) -> Ended:
        self.furnish(program)
        with subprocess.Popen(
            ["python3", MAIN, *program.arguments],  # noqa: S607 - `executable` says which
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
        path = filter(None, [interpreter.environment.get("PYTHONPATH")])
        with theirs:
            self._process = subprocess.Popen(
                ["python3", MAIN],  # noqa: S607 - `executable` says which
                executable=interpreter.executable,
                stdin=kind.streams,
                stdout=kind.streams,
                stderr=kind.streams,
                cwd=interpreter.room,
                env=interpreter.environment | {"PYTHONPATH": ":".join((str(archive), *path))},
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
            with os.fdopen(stdin[1], "wb", buffering=0) as file, contextlib.suppress(BrokenPipeError):
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
    is_version = need[0].isdigit()
    test = f"sys.version_info >= ({need.replace('.', ',')})" if is_version else f"importlib.util.find_spec({need!r})"
    code = f"import importlib.util, sys; sys.exit(not {test})"
    return subprocess.run([executable, "-c", code], check=False).returncode == 0


def _interpreters() -> dict[str, str]:
    """Label -> path, fastest first: the host's own, and the one that the tests run in, without its venv."""
    if named := os.environ.get("EXECUTOR_TEST_PYTHONS"):
        return {path: path for path in named.split(":")}
    own = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    found = {"host": "/usr/bin/python3", "own": str(own)}
    return {label: path for label, path in found.items() if os.access(path, os.X_OK)}


INTERPRETERS = _interpreters()
FIRST = next(iter(INTERPRETERS))


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

    def another(self, label: str, kind: Kind) -> Template:
        """One that a test has for itself. It closes it."""
        return Template(self.interpreter(label), kind, self._directory / "another.zip")

    def close(self) -> None:
        for template in self._templates.values():
            template.close()


def _cases() -> Iterator[tuple[str, str, str]]:
    """Each program in the first interpreter that has what it needs, or in all that EXECUTOR_TEST_PYTHONS names."""
    for program in PROGRAMS:
        able = [label for label, path in INTERPRETERS.items() if all(_has(path, need) for need in program.needs)]
        for label in able if "EXECUTOR_TEST_PYTHONS" in os.environ else able[:1]:
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
    fresh = laboratory.interpreter(label).fresh(program)
    forked = laboratory.template(label, kind).run(program)
    assert fresh.status == program.status, fresh.stderr
    assert comparable(forked, program) == comparable(fresh, program)


def test_the_corpus_is_not_small():
    assert len(PROGRAMS) >= 200


def test_siblings_have_nothing_random_in_common(laboratory):
    source = b"""
import multiprocessing.process, random, tempfile
print(random.random())
print(next(tempfile._get_candidate_names()))
print(bytes(multiprocessing.process.current_process().authkey).hex())
"""
    kind = Kind(LOADED, f"{USED}\nnext(tempfile._get_candidate_names())")
    program = Program(name="siblings", source=source)
    with contextlib.closing(laboratory.another(FIRST, kind)) as template:
        one, other = (template.run(program) for _ in range(2))
    assert one.stderr == other.stderr == b""
    assert len({*one.stdout.split(), *other.stdout.split()}) == 6


def test_siblings_have_their_own_state_of_numpys_old_generator(laboratory):
    label = next((label for label, path in INTERPRETERS.items() if _has(path, "numpy")), None)
    if label is None:
        pytest.skip("no interpreter of this host has numpy")
    program = Program(name="siblings", source=b"import numpy as np; print(np.random.rand(), np.random.normal())")
    one, other = (laboratory.template(label, "numpy").run(program) for _ in range(2))
    assert one.status == other.status == 0
    assert set(one.stdout.split()).isdisjoint(other.stdout.split())


def test_a_template_with_a_second_thread_is_refused(laboratory):
    warm = "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()"
    with pytest.raises(RuntimeError, match="RuntimeError: 2 threads are alive once the template's modules"):
        laboratory.another(FIRST, Kind(warm=warm))


def test_a_template_that_keeps_a_file_open_is_refused(laboratory):
    with pytest.raises(RuntimeError, match="left files open: /etc/passwd; close them at the end of `warm`"):
        laboratory.another(FIRST, Kind(warm="import sys; sys.kept = open('/etc/passwd')"))


def test_a_module_that_is_not_there_is_named(laboratory):
    with pytest.raises(RuntimeError, match="ModuleNotFoundError: No module named 'no_such_module'"):
        laboratory.another(FIRST, Kind(["no_such_module"]))


def test_the_images_own_sitecustomize_is_run_and_seen(tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text("import colorsys\nvalue = 'of the image'\n")
    interpreter = Interpreter(INTERPRETERS[FIRST], tmp_path / "room")
    interpreter.environment["PYTHONPATH"] = str(tmp_path / "site")
    program = Program(
        name="hook",
        files={"colorsys.py": b"raise SystemExit('no fresh start would look here')"},
        source=b"import colorsys, sitecustomize, sys, os; print(sitecustomize.value, sys.path, os.environ)",
    )
    with contextlib.closing(Template(interpreter, Kind(), tmp_path / "code.zip")) as template:
        forked = template.run(program)
    assert forked == interpreter.fresh(program)
    assert forked.stdout.startswith(b"of the image ")


def test_a_file_before_a_loaded_module_costs_a_start_and_changes_nothing(laboratory):
    program = Program(
        name="overlaid",
        files={"statistics.py": b"value = 'of the call'"},
        arguments=("x",),
        source=b"import statistics, sys, os; print(statistics.value, sys.argv, os.environ, 'decimal' in sys.modules)",
    )
    forked = laboratory.template(FIRST, "loaded").run(program)
    assert forked == laboratory.interpreter(FIRST).fresh(program)
    assert forked.stdout.startswith(b"of the call ['main.py', 'x']")
    assert forked.stdout.endswith(b"False\n")
