import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor.model.invocation import InputFile
from executor.model.run import Process
from executor.sandbox.native.choice import SCANNED_BYTES, choose, imports
from executor.sandbox.native.plan import TemplatePlan

PYTHON = TemplatePlan(name="python", interpreter="/usr/bin/python3")
NUMBERS = TemplatePlan(name="numbers", interpreter="/usr/bin/python3", modules=("numpy",))
DATA = TemplatePlan(name="data", interpreter="/usr/bin/python3", modules=("numpy", "pandas", "pandas.plotting"))
OTHER = TemplatePlan(name="other", interpreter="/opt/bin/python3", modules=("numpy", "pandas"))
TEMPLATES = (DATA, PYTHON, NUMBERS, OTHER)
INTERPRETERS = {
    "python3": "/usr/bin/python3.11",
    "python": "/usr/bin/python3.11",
    "/usr/bin/python3": "/usr/bin/python3.11",
    "/opt/bin/python3": "/opt/bin/python3.12",
}


def call(code: str | bytes = "", *, argv=("python3", "main.py"), environment=None, files=None) -> Process:
    """With main.py after the `files` (path to content), as a tool's own come after the caller's."""
    contents = {**(files or {}), "main.py": code}
    written = tuple(
        InputFile(path=path, content=content if isinstance(content, bytes) else content.encode())
        for path, content in contents.items()
    )
    return Process(argv=argv, files=written, environment=environment or {}, wall_seconds=1)


def chosen(process: Process) -> str | None:
    template = choose(TEMPLATES, process, INTERPRETERS)
    return template and template.name


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("", "python"),
        ("print(1)", "python"),
        ("import os, sys", "python"),
        ("import numpy", "numbers"),
        ("import numpy as np; print(np.pi)", "numbers"),
        ("import os; import numpy as np", "numbers"),
        ("import os, numpy.linalg as la, re", "numbers"),
        ("from numpy import linalg", "numbers"),
        ("from\tnumpy.linalg\timport inv", "numbers"),
        ("try:\r\n    import numpy\r\nexcept ImportError:\r\n    pass\r\n", "numbers"),
        ("import pandas", "data"),
        ("import numpy as np\nimport pandas as pd\n", "data"),
        ("from . import numpy", "python"),
        ("# import numpy", "python"),
        ("import os  # numpy, pandas", "python"),
        ("importnumpy", "python"),
        ("import numpyro", "python"),
    ],
)
def test_the_template_that_has_most_of_what_is_imported_and_least_beside_it_serves(code, name):
    assert chosen(call(code)) == name


def test_the_imports_of_the_other_python_files_count():
    assert chosen(call("import helper", files={"helper.py": "import pandas"})) == "data"
    assert chosen(call("import lib.helper", files={"helper.py": "import pandas"})) == "data"


def test_without_a_choice_the_only_template_serves():
    assert choose([DATA], call("print(1)"), INTERPRETERS) == DATA
    assert choose([], call("print(1)"), INTERPRETERS) is None


@pytest.mark.parametrize(
    ("argv", "name"),
    [
        (("python3", "main.py", "-c", "x", ""), "data"),
        (("python", "main.py"), "data"),
        (("/usr/bin/python3", "main.py"), "data"),
        (("/opt/bin/python3", "main.py"), "other"),
    ],
)
def test_the_interpreter_that_is_asked_for_is_the_one_of_the_template(argv, name):
    assert chosen(call("import pandas", argv=argv)) == name


@pytest.mark.parametrize(
    "argv",
    [
        (),
        ("python3",),
        ("python3", "-u", "main.py"),
        ("python3", "./main.py"),
        ("python3", "-"),
        ("python3", "-c", "main.py"),
        ("python3.11", "main.py"),
        ("/usr/bin/python3.11", "main.py"),
        ("node", "main.py"),
        ("main.py", "main.py"),
    ],
)
def test_any_other_command_starts_plainly(argv):
    assert chosen(call("import pandas", argv=argv)) is None


def test_a_program_that_is_not_among_the_files_starts_plainly():
    assert chosen(Process(argv=("python3", "main.py"), wall_seconds=1)) is None
    other = InputFile(path="lib/main.py", content=b"import pandas")
    assert chosen(Process(argv=("python3", "main.py"), files=(other,), wall_seconds=1)) is None


@pytest.mark.parametrize(
    "variable",
    [
        "PYTHONPATH",
        "PYTHONHASHSEED",
        "PYTHONUTF8",
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "LC_ALL",
        "LC_CTYPE",
        "LANG",
        "LANGUAGE",
        "MALLOC_ARENA_MAX",
        "MALLOC_",
        "GLIBC_TUNABLES",
        "GCONV_PATH",
        "TZ",
        "PATH",
        "HOME",
        "TMPDIR",
        "OPENSSL_CONF",
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "NPY_DISABLE_CPU_FEATURES",
        "MPLBACKEND",
    ],
)
def test_a_variable_that_is_read_before_the_program_starts_plainly(variable):
    assert chosen(call("print(1)", environment={"A": "b", variable: ""})) is None


def test_a_variable_of_the_program_itself_does_not_matter():
    assert (
        chosen(call("import pandas", environment={"CURRENCY": "EUR", "MY_PYTHONPATH": "x", "language": "x"})) == "data"
    )


def test_a_variable_of_a_module_keeps_its_templates_away():
    assert chosen(call("import numpy, pandas", environment={"PANDAS_COPY_ON_WRITE": "1"})) == "numbers"
    assert chosen(call("import pandas", environment={"NUMPY_EXPERIMENTAL": "1"})) == "python"


def test_a_file_in_the_place_of_a_module_keeps_its_templates_away():
    assert chosen(call("import numpy, pandas", files={"pandas.py": "x = 1"})) == "numbers"
    assert chosen(call("import numpy, pandas", files={"numpy/__init__.py": "x = 1"})) == "python"
    assert chosen(call("import numpy, pandas", files={"numpy/data.py": "x = 1"})) == "data"


@pytest.mark.parametrize(
    "path", ["json.py", "json.pyc", "random.cpython-311-x86_64-linux-gnu.so", "typing/__init__.py"]
)
def test_a_file_in_the_place_of_the_standard_library_starts_plainly(path):
    assert chosen(call("import pandas", files={path: ""})) is None


@pytest.mark.parametrize("path", ["json.csv", "json/a.csv", "json/data.py", "lib/json.py", "json"])
def test_a_file_that_no_import_would_find_does_not_matter(path):
    assert chosen(call("import pandas", files={path: ""})) == "data"


def test_a_file_that_a_module_reads_at_its_import_starts_plainly():
    assert chosen(call("import pandas", files={"matplotlibrc": "figure.dpi: 50"})) is None


def test_what_stands_behind_the_scanned_bytes_is_not_seen_and_the_program_is_scanned_first():
    filler = b"#" * SCANNED_BYTES + b"\n"
    assert chosen(call(filler + b"import pandas")) == "python"
    assert chosen(call("import pandas", files={"helper.py": filler})) == "data"


def test_names_are_the_top_level_ones():
    code = "import a.b as c, d\nfrom e.f import (g,\n  h)\n  import i ; from j import k"
    assert {"a", "d", "e", "i", "j"} <= set(imports(call(code).files))
    assert set(imports(call(code).files)).isdisjoint({"b", "c", "f", "g", "as", "import", "from"})


CODE = st.lists(st.sampled_from(["import ", "from ", "numpy", ",", ";", "\n", " ", "\\", "é", "\0"])).map("".join)


@given(
    content=st.binary() | CODE.map(str.encode),
    path=st.text(max_size=6),
    argv=st.lists(st.text(max_size=3) | st.sampled_from(["python3", "main.py"]), max_size=3),
    environment=st.dictionaries(st.text(max_size=5), st.text(max_size=3), max_size=2),
)
def test_whatever_the_call_brings_the_choice_is_one_of_the_templates_or_none(content, path, argv, environment):
    files = (InputFile(path="main.py", content=content), InputFile(path=path, content=content))
    process = Process(argv=tuple(argv), files=files, environment=environment, wall_seconds=1)
    assert choose(TEMPLATES, process, INTERPRETERS) in {*TEMPLATES, None}
    assert all(name.isascii() and name.isprintable() and "." not in name for name in imports(files))
