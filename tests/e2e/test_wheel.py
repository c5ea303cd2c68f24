"""What a stranger gets from `pip install`: the wheel alone, in an empty environment."""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
SECONDS = 300
NOT_HERE = 3


def run(*command: str | Path, cwd: Path, expected: tuple[int, ...] = (0,)) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode in expected, f"{command}: {done.stdout}\n{done.stderr}"
    return done


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """The bin directory of a new environment that holds the wheel and what it asks for."""
    directory = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--outdir", directory, PROJECT, cwd=directory)
    [wheel] = directory.glob("*.whl")
    assert list(directory.glob("*.tar.gz"))
    venv.create(directory / "venv", with_pip=True)
    programs = directory / "venv" / "bin"
    run(programs / "python", "-m", "pip", "install", "--quiet", wheel, cwd=directory)
    return programs


@pytest.mark.timeout(SECONDS)
def test_the_wheel_runs_the_main_job_in_an_empty_environment(installed, tmp_path):
    command = [installed / "executor", "run", "python", "-a", "code=print(6 * 7)", "--output", "json"]
    command += ["--state-dir", str(tmp_path / "state")]
    done = run(*command, cwd=tmp_path, expected=(0, NOT_HERE))
    if done.returncode == NOT_HERE and not os.environ.get("CI"):
        pytest.skip(done.stderr.strip())
    outcome = json.loads(done.stdout)
    assert (outcome["state"], outcome["exit_code"], outcome["stdout"]["text"]) == ("COMPLETED", 0, "42\n")


@pytest.mark.timeout(SECONDS)
def test_the_wheel_knows_its_version_and_its_tools(installed, tmp_path):
    assert run(installed / "executor", "--version", cwd=tmp_path).stdout.startswith("executor ")
    run(installed / "executor", "tools", "lint", cwd=tmp_path)
