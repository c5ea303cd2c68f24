"""Runs programs of the image itself: its Python compiles its modules, its ldconfig writes its cache, its templates warm
up, its checks run.

Python is started through the image's own dynamic loader, without chroot, so that root and an ordinary user get the
same bytes. All others need a chroot: root has it, a user has it in a user namespace, and where it does not work a note
says what was left out (programs then find their libraries by the loader's default directories).
"""

import io
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from .errors import BuildError
from .recipe import Recipe, Template
from .tree import Tree

_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SANDBOX_USER = "1000:1000"
_CHECK_SECONDS = 120
_AS_IN_A_SANDBOX = (
    'for place in dev proc; do mount --rbind "/$place" "$0/$place" || exit; done;'
    'for place in tmp workspace; do mount -t tmpfs -o mode=1777 tmpfs "$0/$place" || exit; done;'
    'exec chroot "$@"'
)
"""The image has no devices, and git will not start without /dev/null. The mounts end with the command."""
_WARM_UP = """
import importlib, os, sys
warm, *modules = sys.argv[1:]
if sys.implementation.name != "cpython" or sys.version_info < (3, 10):
    sys.exit(f"the interpreter is {sys.implementation.name} {sys.version.split()[0]}, not CPython 3.10 or later")
for module in modules:
    try:
        importlib.import_module(module)
    except Exception as error:  # whatever the module raises, its name belongs to it
        sys.exit(f"module {module}: {type(error).__name__}: {error}")
exec(compile(warm, "warm", "exec"), {"__name__": "warm"})
if (threads := len(os.listdir("/proc/self/task"))) != 1:
    sys.exit(f"has {threads} threads when it is warm, and must have one to be forked; set what bounds them to 1")
"""


def compile_python(root: Path, recipe: Recipe) -> str | None:
    """Writes `.pyc` files that are valid without a look at their source's time, which no digest may depend on.

    Returns what could not be compiled, or None. One process in one order: the bytes of a `.pyc` depend, through
    reference counts, on what its process compiled before.
    """
    directories = [str(root / path) for path in recipe.bytecode if (root / path).is_dir()]
    options = ["-q", "-f", "--invalidation-mode=unchecked-hash", "-s", str(root), "-p", "/"]
    command = [*_python(root, recipe.python), "-s", "-S", "-m", "compileall", *options, *directories]
    environment = {"PYTHONHOME": str(root / "usr"), "PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8", "PATH": _SYSTEM_PATH}
    done = _run(command, environment, root)
    if done.returncode and not done.stdout.strip():
        raise BuildError(f"the image's Python cannot compile its modules: {done.stderr.strip()}")
    return done.stdout.strip() if done.returncode else None


def private_mounts() -> list[str] | None:
    """What makes chroot and mount possible for this user, for one command; None where nothing does."""
    own_user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    prefix = ["unshare", *own_user, "--mount"]
    if shutil.which(prefix[0], path=_SYSTEM_PATH) and _run([*prefix, "true"], {"PATH": _SYSTEM_PATH}).returncode == 0:
        return prefix
    return None


def cache_libraries(root: Path, prefix: Sequence[str]) -> None:
    ldconfig = root / "usr/sbin/ldconfig"
    if not ldconfig.is_file():
        return
    done = _run([*prefix, str(ldconfig), "-X", "-r", str(root)], {"PATH": _SYSTEM_PATH})
    if done.returncode:
        raise BuildError(f"the image's ldconfig failed: {done.stderr.strip()}")
    shutil.rmtree(root / "var/cache/ldconfig", ignore_errors=True)  # holds times and inode numbers
    (root / "etc/ld.so.cache").chmod(0o644)


def write_printed(root: Path, recipe: Recipe, prefix: Sequence[str]) -> None:
    """What a program of the image says once, so that no call need ask it again."""
    tree = Tree(root)
    for path, command in recipe.printed.items():
        text = _inside(root, recipe, prefix, command, f"printed: {path}")
        tree.file(path, io.BytesIO(text.encode()), is_executable=False)


def check(root: Path, recipe: Recipe, prefix: Sequence[str]) -> None:
    for template in recipe.templates:
        _warm_up(root, recipe, prefix, template)
    for command in recipe.checks:
        _inside(root, recipe, prefix, command, f"check {' '.join(command)}")


def _warm_up(root: Path, recipe: Recipe, prefix: Sequence[str], template: Template) -> None:
    command = [template.interpreter, "-c", _WARM_UP, template.warm, *template.modules]
    _inside(root, recipe, prefix, command, f"template {template.name}")


def _inside(root: Path, recipe: Recipe, prefix: Sequence[str], command: Sequence[str], purpose: str) -> str:
    """Standard output. As the user of a sandbox where root builds, so that unreadable files show."""
    userspec = [f"--userspec={_SANDBOX_USER}", "--groups="] if os.geteuid() == 0 else []
    chroot = ["/bin/sh", "-c", _AS_IN_A_SANDBOX, str(root), *userspec, str(root), "/usr/bin/env", "-i"]
    inside = [*prefix, *chroot, *_assignments(recipe.environment), *command]
    try:
        done = _run(inside, {"PATH": _SYSTEM_PATH}, timeout_seconds=_CHECK_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise BuildError(f"{purpose}: took over {_CHECK_SECONDS} s inside the image") from error
    if done.returncode:
        raise BuildError(f"{purpose}: exit status {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def _assignments(environment: Mapping[str, str]) -> list[str]:
    return [f"{key}={value}" for key, value in {"PATH": _SYSTEM_PATH, **environment}.items()]


def _python(root: Path, version: str) -> list[str]:
    program = root / f"usr/bin/python{version}"
    # Not usr/lib64/ld-linux*: that is an absolute link, which this host would follow to its own loader.
    loaders = sorted(root.glob("usr/lib/*-linux-gnu*/ld-linux*.so.*"))
    if not program.is_file() or not loaders:
        have = ", ".join(sorted(path.name for path in root.glob("usr/bin/python3.*[0-9]"))) or "none"
        raise BuildError(f"python: the recipe says {version}, the packages brought {have}; set `python` and its wheels")
    return [str(loaders[0]), "--library-path", str(loaders[0].parent), str(program)]


def _run(
    command: Sequence[str], environment: Mapping[str, str], directory: Path | None = None, timeout_seconds: int = 600
) -> subprocess.CompletedProcess[str]:
    """With nothing of the caller's environment."""
    return subprocess.run(
        command,
        env=environment,
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_seconds,
        stdin=subprocess.DEVNULL,
    )
