"""Which template of an image can stand in for a fresh start of its interpreter. Pure; asked before each call.

A template serves a call only where the program could not tell it from `python3 main.py`. What is in doubt starts
plainly: that costs time and nothing else. Not seen from here is what a template's modules import in their turn.
"""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from executor.model.invocation import InputFile
from executor.model.run import Process
from executor.sandbox.native.plan import TemplatePlan

MAIN = "main.py"
SCANNED_BYTES = 256 * 1024
"""Of all Python files of a call together, the main one first."""
SCANNED_STATEMENTS = 256
_STATEMENT = re.compile(rb"\n[ \t]{0,64}(?:import|from)[ \t]{1,8}(\w[^\n#]{0,400})")
"""A false hit, as in a text, costs memory; a missed one costs the time of the import. A literal first byte makes the
scan ten times as fast as one that also looks behind `:`.
"""
_NAME = re.compile(rb"(?:^|[,;])[ \t]*(?:(?:import|from)[ \t]+)?(\w+)")
_READ_BEFORE_MAIN = re.compile(
    # the loader, the C library and its locale
    r"LD_.*|GLIBC_.*|MALLOC_.*|GCONV_PATH|LOCPATH|NLSPATH|LANG|LANGUAGE|LC_.*|TZ|TZDIR"
    # CPython and its site
    r"|PYTHON.*|PATH|HOME|TMPDIR|TEMP|TMP|XDG_.*|OPENSSL_.*"
    # threads and variants of numerical libraries; numpy and matplotlib under their short names
    r"|OMP_.*|GOMP_.*|KMP_.*|MKL_.*|OPENBLAS_.*|GOTO_.*|BLIS_.*|NUMEXPR_.*|NPY_.*|MPL.*|DISPLAY|WAYLAND_DISPLAY"
)
_SETTINGS = frozenset({"matplotlibrc"})
"""Files that a module reads from the working directory when it is imported."""
_MODULE_SUFFIXES = (".py", ".pyc", ".so")


def choose(templates: Sequence[TemplatePlan], process: Process, interpreters: Mapping[str, str]) -> TemplatePlan | None:
    """The template that has most of what the program imports and least beside it; None for a plain start.

    `interpreters` says of a word in argv[0] which interpreter of the image it starts (see `images.interpreters`).
    """
    paths = {file.path for file in process.files}
    if process.argv[1:2] != (MAIN,) or MAIN not in paths or paths & _SETTINGS:
        return None
    asked = interpreters.get(process.argv[0])
    if asked is None or any(map(_READ_BEFORE_MAIN.fullmatch, process.environment)):
        return None
    own = frozenset(_own_modules(paths))
    if own & sys.stdlib_module_names:  # it would shadow what a template may have imported
        return None
    fitting = [
        template
        for template in templates
        if interpreters.get(template.interpreter) == asked and _is_unaffected(template, process.environment, own)
    ]
    if len(fitting) < 2:  # noqa: PLR2004 - nothing to compare
        return next(iter(fitting), None)
    imported = frozenset(imports(process.files))
    return min(fitting, key=lambda template: (-len(_tops(template) & imported), len(template.modules)))


def may_serve(argv: Sequence[str], interpreters: Mapping[str, str]) -> bool:
    """Whether a call with this argv can be a template's, as far as that tells."""
    return tuple(argv[1:2]) == (MAIN,) and argv[0] in interpreters


def imports(files: Sequence[InputFile]) -> Iterator[str]:
    """Top-level names that the Python files seem to import, as far as they are of ASCII letters; with repetitions."""
    text = bytearray()
    for file in sorted(files, key=lambda file: file.path != MAIN):
        if file.path.endswith(".py") and len(text) < SCANNED_BYTES:
            text += b"\n" + file.content[: SCANNED_BYTES - len(text)]
    for statement in islice(_STATEMENT.finditer(text), SCANNED_STATEMENTS):
        for name in _NAME.finditer(statement[1]):
            yield name[1].decode("ascii")


def _own_modules(paths: Iterable[str]) -> Iterator[str]:
    """What `import` would find in the working directory before anything installed."""
    for path in paths:
        first, _, below = path.partition("/")
        if not below and path.endswith(_MODULE_SUFFIXES):
            yield first.partition(".")[0]
        elif below.startswith("__init__."):
            yield first


def _is_unaffected(template: TemplatePlan, environment: Mapping[str, str], own: frozenset[str]) -> bool:
    """No variable for one of its modules, as in NUMPY_X for numpy; no file of the call in a module's place."""
    tops = _tops(template)
    return own.isdisjoint(tops) and not any(name.startswith(top.upper()) for name in environment for top in tops)


def _tops(template: TemplatePlan) -> frozenset[str]:
    return frozenset(module.partition(".")[0] for module in template.modules)
