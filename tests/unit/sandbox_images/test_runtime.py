import subprocess
import sys

import pytest

from sandbox_images.builder.runtime import _WARM_UP

TWO_THREADS = """
import threading

end = threading.Event()
threading.Thread(target=end.wait, daemon=True).start()
"""


def warmed(warm: str, *modules: str) -> subprocess.CompletedProcess[str]:
    """As the build does it, with the interpreter of these tests in the image's place."""
    command = [sys.executable, "-I", "-c", _WARM_UP, warm, *modules]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_template_imports_its_modules_and_runs_its_source_with_one_thread():
    done = warmed("import sys\nprint('json.decoder' in sys.modules)", "json.decoder", "csv")
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


def test_a_module_that_cannot_be_imported_is_told_by_its_name():
    done = warmed("", "json", "jsom")
    assert done.returncode == 1
    assert done.stderr == "module jsom: ModuleNotFoundError: No module named 'jsom'\n"


@pytest.mark.parametrize(("warm", "reason"), [("x = (", "SyntaxError"), ("\nnope()", 'File "warm", line 2')])
def test_a_source_that_fails_is_told_with_its_place(warm, reason):
    done = warmed(warm)
    assert done.returncode == 1
    assert reason in done.stderr


def test_a_template_with_a_second_thread_is_refused():
    done = warmed(TWO_THREADS)
    assert done.returncode == 1
    assert "has 2 threads when it is warm" in done.stderr
