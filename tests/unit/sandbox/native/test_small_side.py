"""What the launcher and the templates load: every sandbox holds it in memory, and copies some of it."""

import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import executor
from executor.sandbox.native.channel import code_of_templates

ROOT = Path(executor.__file__).parents[1]
TOO_LARGE = {"collections", "contextlib", "dataclasses", "enum", "inspect", "json", "pathlib", "re", "socket", "typing"}


def loaded_with(path: Path, module: str) -> set[str]:
    code = f"import sys; sys.path.append({str(path)!r}); import {module}; print(*sys.modules)"
    words = [sys.executable, "-I", "-S", "-X", "utf8", "-c", code]
    return set(subprocess.run(words, check=True, capture_output=True, text=True).stdout.split())


def test_the_launcher_loads_no_large_module():
    assert loaded_with(ROOT, "executor.sandbox.native.launcher") & TOO_LARGE == set()


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "code.zip"
    path.write_bytes(code_of_templates())
    return path


def test_a_template_finds_all_that_it_imports_in_its_archive(archive: Path):
    loaded = loaded_with(archive, "executor.sandbox.native.template")
    ours = {name for name in loaded if name.startswith("executor.sandbox.native.")}
    packed = {
        name.removesuffix(".py").replace("/", ".")
        for name in zipfile.ZipFile(io.BytesIO(code_of_templates())).namelist()
        if name.endswith(".py") and not name.endswith("__init__.py") and name != "sitecustomize.py"
    }
    assert ours == packed, "the archive has more or less than a template imports"


def test_a_template_loads_no_large_module_of_its_own(archive: Path):
    beside_site = {"site", "stat", "io", "os"}
    assert loaded_with(archive, "executor.sandbox.native.template") & (TOO_LARGE - beside_site) == set()
