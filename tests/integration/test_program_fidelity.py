"""A program whose interpreter was forked ends as it does where Python was started for it, byte for byte."""

import os
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from executor.model.invocation import InputFile
from executor.model.limits import Limits
from executor.model.run import Process, SandboxSpec, StreamName
from executor.sandbox.native.backend import NativeBackend, NativeSettings
from executor.sandbox.native.pool import PoolSettings
from executor.settings import default_images_dir
from tests.support.backends import start_or_skip
from tests.support.corpus import Ended, Program, comparable, load
from tests.support.hosts import need_every_limit

MODULES = {"numpy", "pandas", "matplotlib"}
"""Of the image `data`, and of its template `data`."""
PROGRAMS = {
    "host": [program for program in load() if not program.needs & MODULES],
    "data": [program for program in load() if program.needs & MODULES],
}
WALL_SECONDS = 20.0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def backend(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[NativeBackend]:
    need_every_limit()
    settings = NativeSettings(
        state_dir=tmp_path_factory.mktemp("state"),
        images_dir=default_images_dir(),
        pool=PoolSettings(most=4),
        launchers=1,
    )
    backend = NativeBackend(settings)
    await start_or_skip(backend)
    try:
        await backend.templates_are_told()
        yield backend
    finally:
        await backend.stop()


async def ended(backend: NativeBackend, image: str, program: Program, *, forked: bool) -> Ended:
    files = {**program.files, "main.py": program.source}
    process = Process(
        argv=("python3", "main.py", *program.arguments),
        stdin=program.stdin,
        wall_seconds=WALL_SECONDS,
        files=tuple(InputFile(path=path, content=content) for path, content in files.items()),
    )
    sandbox = await backend.open(SandboxSpec(image=image, limits=Limits()), process if forked else None)
    streams: dict[StreamName, bytearray] = {name: bytearray() for name in StreamName}
    try:
        report = await sandbox.run(process, lambda name, data: streams[name].extend(data))
    finally:
        await sandbox.close()
    assert ("template" in sandbox.isolation.prepared) == forked or (forked and not program_fits(process))
    status = report.exit_code if report.signal is None else -report.signal
    assert status is not None, report
    return comparable(Ended(bytes(streams[StreamName.STDOUT]), bytes(streams[StreamName.STDERR]), status), program)


def program_fits(process: Process) -> bool:
    """Files that would shadow a module are a reason to start plainly; so is an own setting of matplotlib."""
    return all(file.path == "main.py" for file in process.files)


@pytest.mark.parametrize(
    ("image", "program"),
    [
        pytest.param(image, program, id=f"{image}: {program.name}")
        for image, some in PROGRAMS.items()
        for program in some
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_a_program_cannot_tell_a_fork_from_a_start(backend: NativeBackend, image: str, program: Program):
    if image not in backend.images() and not os.environ.get("CI"):
        pytest.skip(f"the image {image} is not built here: make images")
    plain = await ended(backend, image, program, forked=False)
    assert await ended(backend, image, program, forked=True) == plain


def test_there_are_two_hundred_programs() -> None:
    assert sum(map(len, PROGRAMS.values())) >= 200
