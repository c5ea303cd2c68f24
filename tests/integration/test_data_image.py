"""The image `data`, as the built-in tools find it when the operator makes it their default."""

import asyncio
import json
import os
import sqlite3
from collections.abc import AsyncIterator

import pytest

from executor.app import Service, open_service
from executor.ingress.feed import SILENT
from executor.model.errors import Unavailable
from executor.model.invocation import InputFile, Invocation
from executor.model.outcome import Outcome, State
from executor.settings import default_images_dir, load

IMAGE = "data"


@pytest.fixture
async def service(tmp_path) -> AsyncIterator[Service]:
    """In CI the image has been built; elsewhere its absence is told."""
    if not (default_images_dir() / IMAGE / "image.json").exists() and not os.environ.get("CI"):
        pytest.skip(f"the image {IMAGE!r} is not built here: make images")
    settings = load(chosen={"state_dir": tmp_path, "default_image": IMAGE}, environ={})
    try:
        async with open_service(settings) as service:
            yield service
    except Unavailable as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))


async def call(service: Service, tool: str, arguments_json: str, **options) -> Outcome:
    invocation = Invocation(invocation_id="inv_test", tool=tool, arguments_json=arguments_json, **options)
    return await service.pipeline.execute(invocation, SILENT, asyncio.Event())


async def printed(service: Service, tool: str, arguments_json: str, **options) -> str:
    outcome = await call(service, tool, arguments_json, **options)
    assert (outcome.state, outcome.exit_code, outcome.error) == (State.COMPLETED, 0, None), outcome.stderr.text
    assert outcome.isolation is not None
    assert outcome.isolation.image == IMAGE
    assert outcome.isolation.image_digest.startswith("sha256:")
    return outcome.stdout.text


async def test_every_tool_finds_its_program_in_the_image(service):
    assert {tool.name: service.offers.unavailable(tool) for tool in service.catalogue.tools()} == dict.fromkeys(
        ("node", "python", "read_output", "shell", "sqlite")
    )


async def test_python_has_numpy_and_pandas(service):
    code = "import numpy, pandas; print(pandas.DataFrame({'a': numpy.arange(5)}).a.sum())"
    assert await printed(service, "python", f'{{"code": "{code}"}}') == "10\n"


async def test_matplotlib_draws_at_once_with_the_fonts_of_the_image_and_leaves_nothing_beside_the_picture(service):
    code = (
        "import matplotlib.pyplot as plt, os; plt.plot([1]); plt.savefig('a.png');"
        "print(sorted(os.listdir('.')), os.listdir('/tmp'))"
    )
    outcome = await call(service, "python", json.dumps({"code": code}), collect=("*.png",))
    assert (outcome.stdout.text, outcome.stderr.text) == ("['a.png', 'main.py'] []\n", "")
    assert [artifact.path for artifact in outcome.artifacts] == ["a.png"]


async def test_node_runs_a_program(service):
    code = "console.log([1, 2, 3].reduce((a, b) => a + b), typeof require('node:fs').readFileSync)"
    assert await printed(service, "node", f'{{"code": "{code}"}}') == "6 function\n"


async def test_git_sqlite_and_jq_work(service):
    script = (
        "git init -q r && cd r && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x;"
        "git log --format=%s;"
        "sqlite3 :memory: 'select 1+1'; echo '[3]' | jq '.[0]'"
    )
    assert await printed(service, "shell", f'{{"command": "{script}"}}') == "x\n2\n3\n"


async def test_sqlite_reads_a_database_that_was_sent_along(service, tmp_path):
    path = tmp_path / "a.db"
    with sqlite3.connect(path) as database:
        database.execute("create table t(x)")
        database.execute("insert into t values (41), (1)")
    database.close()
    files = (InputFile(path="a.db", content=path.read_bytes()),)
    text = await printed(service, "sqlite", '{"sql": "select sum(x) as s from t", "database": "a.db"}', files=files)
    assert '"rows": [[42]]' in text or '"rows":[[42]]' in text


async def test_the_programs_are_those_of_the_image_and_not_the_hosts(service):
    description = json.loads((default_images_dir() / IMAGE / "image.json").read_text())
    versions = {package["name"]: package["version"] for package in description["packages"]}
    text = await printed(service, "shell", '{"command": "node --version"}')
    assert text.strip().removeprefix("v") == versions["nodejs"].partition("+")[0].partition("-")[0]
