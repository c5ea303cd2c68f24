"""The command line over the fake backend: real catalogue, real pipeline, real output store, no kernel."""

import json
from collections import namedtuple

import pytest

from executor.cli.main import Wiring, start
from executor.sandbox.fake import FakeBackend

Ran = namedtuple("Ran", "status out err")  # noqa: PYI024 - annotations would say nothing here

MANIFEST = """\
name: {name}
version: "1.0.0"
description: >-
  Plays the program {program} of the fake backend, so that the command line can be tested. Do not use it for anything
  else than tests.
effect: {effect}
parameters:
  type: object
  additionalProperties: false
  properties:
    text: {{type: string, description: A text that is passed on.}}
    count: {{type: integer, description: A number that is passed on.}}
command:
  argv: {argv}
"""
TOOLS = {
    "echo": '["echo", "--", "{{text}}", "{{count}}"]',
    "sleep": '["sleep", "60"]',
    "quit": '["exit", "3"]',
    "count": '["count", "20000"]',
    "save": '["write", "made.txt", "made"]',
    "input": '["cat", "in.txt"]',
    "fault": '["fault"]',
}


def write_manifest(directory, name, argv, effect="read_only"):
    directory.mkdir(exist_ok=True)
    program = json.loads(argv)[0]
    (directory / f"{name}.yaml").write_text(MANIFEST.format(name=name, program=program, argv=argv, effect=effect))


@pytest.fixture(autouse=True)
def _environment(tmp_path, monkeypatch):
    for name, argv in TOOLS.items():
        write_manifest(tmp_path / "tools", name, argv)
    monkeypatch.setenv("EXECUTOR_CATALOGUE", str(tmp_path / "tools"))
    monkeypatch.setenv("EXECUTOR_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def backend():
    return FakeBackend()


@pytest.fixture
def executor(capsys, backend):
    """Runs one command; gives its exit status and what it wrote."""

    def call(*arguments):
        status = start(arguments, Wiring(make_backend=lambda _: backend))
        written = capsys.readouterr()
        assert "Traceback" not in written.err
        assert backend.open_count == 0
        return Ran(status, written.out, written.err)

    return call
