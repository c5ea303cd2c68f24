"""What makes a fork of a template's interpreter the same as one that was started for its call. Runs in the CPython
of an image, 3.10 or later, in the middle of its start: in a `sitecustomize` that comes from a zip archive. CPython then
runs main.py itself, so all that follows is its own. Only modules that every start of CPython imports, and builtin ones.

A program runs in a child that `os.fork` made, so that what modules do after a fork (`random` seeds itself, `threading`
and `logging` renew their locks) has been done. It can still tell these from a fresh start:

- `sys.modules` holds the template's modules and all that those imported. They were imported under the template's
  filters of warnings and printed what they had to print there; what they registered with `atexit` and
  `os.register_at_fork` stands before the program's own. A module of the same name that the program first writes and
  then imports is not seen.
- Siblings have the seed of str hashes, and so the order of sets of them, and the layout of memory in common.
- What the template had is frozen (see `gc.freeze`), so that no collection copies it: `gc.get_freeze_count` is not 0,
  `gc.get_objects` leaves it out, `gc.get_stats` counts from the template's start. At exit it is cleared by module, not
  collected.
- `/proc/self/exe` is the template's file: siblings that lock it meet each other.
- `/proc/self/cmdline` and `/proc/self/environ` are the template's; peak memory starts at what the fork had.
"""

import _contextvars
import _signal  # type: ignore[import-not-found]
import gc
import io
import os
import site
import stat
import sys
import time
import zipimport

TYPE_CHECKING = False  # `typing` would be one more module that a program finds loaded
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import ModuleType
    from typing import Any, NoReturn

_HOOK = "sitecustomize"
_STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))
"""In the order of their descriptors."""
_AS_IMPORTED = (
    ("tempfile", "tempdir", None),
    ("tempfile", "_name_sequence", None),
    ("uuid", "_node", None),
    ("uuid", "_last_timestamp", None),
    ("uuid", "_last_timestamp_v7", None),
    ("uuid", "_last_counter_v7", 0),
)
"""Module, global, and its value before first use: what would give siblings the same names."""
_SET_BY_READLINE = ("LINES", "COLUMNS")
"""In the environment of C, which `os.environ` does not show."""
_MODULE_SUFFIXES = (".py", ".pyc", ".so")
_SEED_BYTES = 32
_KEY_BYTES = 32
FAULT = 71
"""Exit status where a child cannot become the program (EX_OSERR of sysexits.h)."""


class _Template:
    """What `preload` leaves for `settle`."""

    def __init__(self) -> None:
        self.ours: tuple[str, ...] = ()
        """Modules that came from our archive."""
        self.has_hook = False
        """Whether the image has a `sitecustomize` of its own."""
        self.beyond: frozenset[str] = frozenset()
        """Top-level names that a fresh interpreter would search for, and that are loaded here."""
        self.pipes: tuple[bool, ...] = (False, False, False)
        """Which of the standard streams were opened on a pipe."""
        self.words = len(sys.orig_argv)
        """Of its command line, up to main.py."""
        self.environment: dict[str, str] = {}
        """Its own, without our part of it."""
        self.prepared = False
        """Whether this is a child, and ready to be settled."""


_TEMPLATE = _Template()


def preload(modules: "Sequence[str]", warm: str) -> None:
    """In the template, once. Imports the modules in their order, then runs `warm`; nothing of ours may be imported
    later. The garbage collector is off from here to `settle`.

    Raises whatever these raise, and RuntimeError where more than one thread is alive then, since a fork loses the
    others, or where they left files open: a child has other files under those numbers.
    """
    gc.disable()
    before = _open_files()
    _leave_path()
    fresh = _run_own_hook()
    _contextvars.copy_context().run(_load, modules, warm)  # what they set there (decimal, numpy.errstate) ends with it
    threads = len(os.listdir("/proc/self/task"))  # noqa: PTH208 - no pathlib here
    if threads != 1:
        raise RuntimeError(
            f"{threads} threads are alive once the template's modules ({', '.join(modules)}) are imported and warmed; "
            "it must have one: set the variables that limit their pools, such as OPENBLAS_NUM_THREADS=1"
        )
    _TEMPLATE.beyond = frozenset(_tops(sys.modules)) - fresh - {*_tops(_TEMPLATE.ours), *sys.builtin_module_names}
    _TEMPLATE.pipes = tuple(map(_is_pipe, range(len(_STREAMS))))
    _undo()
    os.register_at_fork(after_in_child=_prepare)
    gc.collect()
    if left := _open_files() - before:
        files = ", ".join(sorted(path for _, path in left))
        raise RuntimeError(f"the template's modules left files open: {files}; close them at the end of `warm`")
    gc.freeze()
    _renew_main()


def settle(arguments: "Sequence[str]", environment: "Mapping[str, str]") -> None:
    """In the child, when its standard streams, working directory and descriptors are the program's: the last call of
    our `sitecustomize`. `arguments` follow main.py; `environment` is the whole of it.

    Where the image has no `sitecustomize` it raises the ImportError from which `site` knows this, and nothing else.
    Where files of the working directory would come before loaded modules it does not return: the interpreter is started
    anew. Where it fails it tells so on stderr and exits with FAULT, since `site` would go on to main.py.
    """
    try:
        if not _TEMPLATE.prepared:
            _prepare()
        if _is_overlaid():
            _start_anew(arguments, environment)
        _adopt(arguments, environment)
        gc.enable()
    except Exception as error:  # noqa: BLE001 - whatever it is, main.py must not run in what is half a template
        os.write(2, f"the interpreter could not be settled: {type(error).__name__}: {error}\n".encode())
        os._exit(FAULT)
    if not _TEMPLATE.has_hook:
        _say_that_there_is_no_hook()


def _prepare() -> None:
    """In the child at once, while it has nothing to do yet: each page that is written to here first is copied, which
    costs ten times the rest. What `settle` is to do is done once before. The program's own forks come here too.
    """
    if _TEMPLATE.prepared:
        return
    for name in _TEMPLATE.ours:
        sys.modules.pop(name, None)
    _reset_signals()
    _renew_states()
    _is_overlaid()
    _adopt(("",), {})
    _adopt((), _TEMPLATE.environment)
    try:
        _say_that_there_is_no_hook()
    except ImportError:
        _TEMPLATE.prepared = True


def _adopt(arguments: "Sequence[str]", environment: "Mapping[str, str]") -> None:
    _renew_streams()
    sys.argv[1:] = arguments
    sys.orig_argv[_TEMPLATE.words :] = arguments
    _set_environment(environment)
    if logging := sys.modules.get("logging"):
        was = vars(logging)["_startTime"]
        vars(logging)["_startTime"] = time.time_ns() if isinstance(was, int) else time.time()


def _say_that_there_is_no_hook() -> "NoReturn":
    raise ModuleNotFoundError(f"No module named {_HOOK!r}", name=_HOOK)


def _tops(names: "Iterable[str]") -> "set[str]":
    return {name.partition(".")[0] for name in names}


def _leave_path() -> None:
    """No trace of the archive where modules are looked for."""
    archive = getattr(_loader(sys.modules[__name__]), "archive", None)
    if archive is None:
        return  # not from an archive
    path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    _TEMPLATE.environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in path if entry != archive)}
    if not _TEMPLATE.environment["PYTHONPATH"]:
        del _TEMPLATE.environment["PYTHONPATH"]
    _TEMPLATE.ours = tuple(
        name
        for name, module in sys.modules.items()
        if getattr(_loader(module), "archive", None) == archive and name != _HOOK
    )
    sys.path[:] = [entry for entry in sys.path if entry != archive]
    for entry in [entry for entry in sys.path_importer_cache if entry.startswith(archive)]:
        del sys.path_importer_cache[entry]
    zipimport._zip_directory_cache.pop(archive, None)  # type: ignore[attr-defined]  # noqa: SLF001 - has no other door


def _loader(module: "ModuleType") -> object:
    return getattr(getattr(module, "__spec__", None), "loader", None)


def _run_own_hook() -> "set[str]":
    """The image's own `sitecustomize`, before which ours stands. Top-level names that a fresh start has loaded then."""
    before = list(sys.modules)
    started = before[: before.index(_HOOK)]  # in the order of import: what comes later is ours
    del sys.modules[_HOOK]
    try:
        __import__(_HOOK)
    except ImportError as missing:
        if missing.name != _HOOK:
            raise
    _TEMPLATE.has_hook = _HOOK in sys.modules
    return _tops([*started, *(sys.modules.keys() - set(before))])


def _load(modules: "Sequence[str]", warm: str) -> None:
    for name in modules:
        __import__(name)
    exec(compile(warm, "<warm>", "exec"), {"__name__": "warm"})  # noqa: S102 - what the image declares


def _open_files() -> "set[tuple[str, str]]":
    """Descriptors and what they are open on."""
    found = set()
    for fd in os.listdir("/proc/self/fd"):  # noqa: PTH208 - no pathlib here
        try:
            found.add((fd, os.readlink(f"/proc/self/fd/{fd}")))  # noqa: PTH115 - no pathlib here
        except FileNotFoundError:
            continue  # the one that the list was read from
    return found


def _undo() -> None:
    """What imports and `warm` left in the process. Each place may warn once more."""
    fonts = getattr(sys.modules.get("matplotlib.font_manager"), "_get_font", None)
    if fonts:
        fonts.cache_clear()  # as matplotlib does itself after a fork, when the open files of the fonts are gone
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", None)
        if isinstance(names, dict):  # what stands there need not be a module
            names.pop("__warningregistry__", None)
    for number in _signal.valid_signals() - {_signal.SIGKILL, _signal.SIGSTOP}:
        _signal.signal(number, _wanted(number))  # also where C code caught it, which `getsignal` does not know
    for name in _SET_BY_READLINE:
        if name not in os.environ:
            os.unsetenv(name)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()


def _renew_main() -> None:
    """A `__main__` that is not frozen: at exit it is collected as a whole, so that `__del__` still sees its globals."""
    old = sys.modules["__main__"]
    new = type(old)("__main__")
    vars(new).update(vars(old))
    if "__annotations__" in vars(old):
        vars(new)["__annotations__"] = {}
    sys.modules["__main__"] = new


def _is_pipe(fd: int) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(fd).st_mode)
    except OSError:
        return False


def _is_overlaid() -> bool:
    """Whether an import of the program would find something in its own files that is loaded here from elsewhere."""
    if site.ENABLE_USER_SITE and site.USER_SITE and os.path.isdir(site.USER_SITE):  # noqa: PTH112 - no pathlib here
        return site.USER_SITE not in sys.path
    beyond = _TEMPLATE.beyond
    return any(entry.partition(".")[0] in beyond and _is_module(entry) for entry in os.listdir("."))  # noqa: PTH208


def _is_module(entry: str) -> bool:
    return entry.endswith(_MODULE_SUFFIXES) or os.path.isdir(entry)  # noqa: PTH112 - no pathlib here


def _start_anew(arguments: "Sequence[str]", environment: "Mapping[str, str]") -> "NoReturn":
    for number in (_signal.SIGPIPE, _signal.SIGXFSZ):
        _signal.signal(number, _signal.SIG_DFL)  # an exec keeps what is ignored
    os.execve(sys.executable, [*sys.orig_argv, *arguments], environment)  # noqa: S606 - the template's own words


def _renew_streams() -> None:
    """CPython looked at the template's: a stream on something else than a pipe behaves in another way."""
    for fd, (name, mode) in enumerate(_STREAMS):
        if not (_TEMPLATE.pipes[fd] and _is_pipe(fd)):
            stream = _stream(fd, name, mode)
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)


def _stream(fd: int, name: str, mode: str) -> "io.TextIOWrapper | None":
    """As CPython opens it. None where the descriptor is closed."""
    like = getattr(sys, name)
    unbuffered = like is not None and like.write_through
    try:
        binary: Any = open(fd, f"{mode}b", 0 if unbuffered else -1, closefd=False)  # noqa: SIM115 - it is the stream
    except OSError:
        return None
    raw = binary if unbuffered else binary.raw
    raw.name = f"<{name}>"
    stream: Any = io.TextIOWrapper(
        binary,
        like.encoding if like else "utf-8",
        like.errors if like else "surrogateescape",
        "\n",
        line_buffering=not unbuffered and (name == "stderr" or raw.isatty()),
        write_through=unbuffered,
    )
    stream.mode = mode
    return stream  # type: ignore[no-any-return]


def _set_environment(environment: "Mapping[str, str]") -> None:
    """In this order too: what `os.environ` holds, and what a program started from here is given."""
    variables = os.environ._data  # type: ignore[attr-defined]  # noqa: SLF001 - item by item it costs ten times as much
    wanted = {os.fsencode(name): os.fsencode(value) for name, value in environment.items()}
    if list(variables.items()) == list(wanted.items()):
        return
    for name in variables:
        os.unsetenv(name)
    variables.clear()
    variables.update(wanted)
    for name, value in wanted.items():
        os.putenv(name, value)


def _reset_signals() -> None:
    for number in _signal.valid_signals():
        wanted = _wanted(number)
        if _signal.getsignal(number) != wanted:
            _signal.signal(number, wanted)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, ())


def _wanted(number: int) -> object:
    if number == _signal.SIGINT:
        return _signal.default_int_handler
    return _signal.SIG_IGN if number in {_signal.SIGPIPE, _signal.SIGXFSZ} else _signal.SIG_DFL


def _renew_states() -> None:
    """Of loaded modules: what must differ between siblings, or tells of the template."""
    for name, variable, value in _AS_IMPORTED:
        module = sys.modules.get(name)
        if module and variable in vars(module):
            vars(module)[variable] = value
    if process := sys.modules.get("multiprocessing.process"):
        config = vars(process.current_process())["_config"]
        config["authkey"] = process.AuthenticationString(os.urandom(_KEY_BYTES))
    if threading := sys.modules.get("threading"):
        main = vars(threading.main_thread())
        if "_native_id" in main:  # not every Python looks again after a fork
            main["_native_id"] = os.getpid()
    if random := sys.modules.get("numpy.random"):  # as much entropy as `seed()` takes, at a tenth of its cost
        random.seed(sys.modules["numpy"].frombuffer(os.urandom(_SEED_BYTES), "u4"))
