"""What a sandboxed program can read and write, and what of its files comes back."""

import hashlib
import io
import json
import os
import stat
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from executor.model.errors import ErrorClass, ErrorCode
from executor.model.invocation import InputFile
from executor.model.outcome import Outcome, State
from tests.security.caller import Caller, assert_completed
from tests.security.serving import Server

HUNT = """
import hostile, os

def content(path):
    try:
        with open(path, "rb") as file:
            return file.read().decode("latin-1")
    except OSError as error:
        return hostile.name(error.errno)

wanted = hostile.given()
ways = ["", "/workspace/../..", "/proc/self/root", "/proc/self/cwd/..", "/proc/1/root", "/proc/1/cwd", "/proc/2/root",
        "/proc/thread-self/root", "/dev/fd/../../root", "/..", "/../../../../..", "/tmp/../.."]
found = {way + path: content(way + path) for way in ways for path in wanted}
for number in range(64):
    for way in (f"/proc/self/fd/{number}/..", f"/proc/self/fd/{number}/../..", f"/proc/1/fd/{number}"):
        for path in wanted:
            found[way + path] = content(way + path)
os.chdir("/")
for depth in range(1, 12):
    for path in wanted:
        found["../" * depth + path.lstrip("/")] = content("../" * depth + path.lstrip("/"))
hostile.show({"found": found, "environment": dict(os.environ), "mounts": content("/proc/self/mountinfo"),
              "command lines": [content(f"/proc/{pid}/{name}") for pid in os.listdir("/proc") if pid.isdigit()
                                for name in ("cmdline", "environ")]})
"""
IMAGE_WRITES = """
import ctypes, hostile, os

def opened(path, flags):
    return hostile.tried(lambda: os.close(os.open(path, flags, 0o777)))

answers = {}
for place in hostile.given()["directories"]:
    new = os.path.join(place, "planted")
    answers[f"create in {place}"] = opened(new, os.O_WRONLY | os.O_CREAT)
    answers[f"mkdir in {place}"] = hostile.tried(os.mkdir, new)
    answers[f"symlink in {place}"] = hostile.tried(os.symlink, "/tmp", new)
    answers[f"mkfifo in {place}"] = hostile.tried(os.mkfifo, new)
    answers[f"chmod of {place}"] = hostile.tried(os.chmod, place, 0o777)
    answers[f"chown of {place}"] = hostile.tried(os.chown, place, 1000, 1000)
    answers[f"utime of {place}"] = hostile.tried(os.utime, place)
for file in hostile.given()["files"]:
    answers[f"write to {file}"] = opened(file, os.O_WRONLY)
    answers[f"append to {file}"] = opened(file, os.O_RDWR | os.O_APPEND)
    answers[f"truncate {file}"] = opened(file, os.O_WRONLY | os.O_TRUNC)
    answers[f"truncate by name {file}"] = hostile.tried(os.truncate, file, 0)
    answers[f"chmod {file}"] = hostile.tried(os.chmod, file, 0o777)
    answers[f"chown {file}"] = hostile.tried(os.chown, file, 1000, 1000)
    answers[f"rename {file}"] = hostile.tried(os.rename, file, file + ".gone")
    answers[f"replace {file}"] = hostile.tried(os.replace, file, os.path.join(os.path.dirname(file), "planted"))
    answers[f"unlink {file}"] = hostile.tried(os.unlink, file)
    answers[f"hard link {file}"] = hostile.tried(os.link, file, file + ".link")
    answers[f"xattr {file}"] = hostile.tried(os.setxattr, file, "user.mine", b"x")
hostile.show(answers)
"""
WRITABLE = """
import hostile, os, stat

found, seen = [], 0
for directory, directories, files in os.walk("/"):
    if directory == "/proc":
        directories[:] = ["self", "sys", "1"]
    for name in [".", *files]:
        path = os.path.normpath(os.path.join(directory, name))
        seen += 1
        if not os.path.islink(path) and os.access(path, os.W_OK):
            found.append(path)
hostile.show({"writable": sorted(path for path in found if not path.startswith("/workspace/")), "seen": seen})
"""
LITTER = """
import os

for place in ("/workspace", "/tmp", "/dev/shm"):
    os.makedirs(f"{place}/litter/deep")
    for name in ("litter/deep/file", ".hidden", "plain"):
        with open(f"{place}/{name}", "w") as file:
            file.write("left behind")
    os.symlink("plain", f"{place}/link")
"""
LOOK = """
import sys

sys.dont_write_bytecode = True
import hostile, os

hostile.show({place: sorted(os.listdir(place)) for place in ("/workspace", "/tmp", "/dev/shm")})
"""
DEEP = """
import os

for level in range(1000):
    with open("here", "w") as file:
        file.write("x")
    os.mkdir("d")
    os.chdir("d")
with open("bottom", "w") as file:
    file.write("x")
"""
SETUID = """
import hostile, os, shutil, subprocess

def auxiliary(path):
    shown = subprocess.run([path, "--version"], env={"LD_SHOW_AUXV": "1"}, capture_output=True, text=True, timeout=10)
    return dict(line.split(":", 1) for line in shown.stdout.splitlines() if line.startswith("AT_"))

def ids(path):
    aux = auxiliary(path)
    return [int(aux[name]) for name in ("AT_UID", "AT_EUID", "AT_GID", "AT_EGID", "AT_SECURE")]

answers = {}
for path in hostile.given():
    answers[path] = ids(path)
    copy = f"/workspace/{os.path.basename(path)}"
    shutil.copyfile(path, copy)
    os.chmod(copy, 0o6755)
    answers[f"copy of {path}"] = [*ids(copy), os.stat(copy).st_uid]
hostile.show(answers)
"""
SPECIAL_FILES = """
import hostile, os, stat

open("file", "w").close()
answers = {
    "null": hostile.tried(os.mknod, "null", stat.S_IFCHR | 0o666, os.makedev(1, 3)),
    "memory": hostile.tried(os.mknod, "/tmp/mem", stat.S_IFCHR | 0o666, os.makedev(1, 1)),
    "disk": hostile.tried(os.mknod, "/dev/shm/disk", stat.S_IFBLK | 0o666, os.makedev(254, 0)),
    "capability": hostile.tried(os.setxattr, "file", "security.capability", b"\\1\\0\\0\\2\\x80" + bytes(15)),
    "trusted": hostile.tried(os.setxattr, "file", "trusted.overlay.opaque", b"y"),
    "chown": hostile.tried(os.chown, "file", 0, 0),
    "chgrp": hostile.tried(os.chown, "file", -1, 0),
    "lchown": hostile.tried(os.lchown, "file", 0, -1),
    "fchownat": hostile.tried(os.chown, "file", 0, -1, dir_fd=os.open(".", os.O_RDONLY)),
}
hostile.show(answers)
"""
LOCKER = """
import ctypes, fcntl, hostile, os, time

file = os.open(hostile.given(), os.O_RDONLY)
fcntl.flock(file, fcntl.LOCK_EX)
fcntl.lockf(file, fcntl.LOCK_SH)
libc = ctypes.CDLL(None)
watch = libc.inotify_init1(os.O_NONBLOCK)
libc.inotify_add_watch(watch, hostile.given().encode(), 0xfff)
print("locked", flush=True)
time.sleep(1)
try:
    print("events", len(os.read(watch, 4096)))
except BlockingIOError:
    print("events 0")
"""
LOCK = """
import fcntl, hostile, os

file = os.open(hostile.given(), os.O_RDONLY)
os.read(file, 1)
hostile.show({
    "flock": hostile.tried(fcntl.flock, file, fcntl.LOCK_EX | fcntl.LOCK_NB),
    "fcntl": hostile.tried(fcntl.lockf, file, fcntl.LOCK_SH | fcntl.LOCK_NB),
})
"""


async def test_a_canary_of_the_host_is_found_by_no_path(
    caller: Caller, server: Server, canary: str, host_files: tuple[Path, ...]
) -> None:
    """Probe 1: canary."""
    outcome = await caller.python(HUNT, [str(path) for path in host_files])

    assert_completed(outcome)
    seen = json.loads(outcome.stdout.text)
    assert set(seen["found"].values()) <= {"ENOENT", "ENOTDIR", "EACCES", "EPERM"}
    assert len(seen["found"]) > 100
    told = repr(outcome) + server.log
    assert canary not in told
    assert all(path.read_text() == canary for path in host_files), "the canary is not where it was looked for"


@pytest.fixture
def host_files(tmp_path: Path, server: Server, canary: str) -> Iterator[tuple[Path, ...]]:
    """In a directory that everybody may enter, so that nothing but the sandbox keeps them away; and with the server."""
    places = [tmp_path, server.state_dir, Path.home(), Path("/var/tmp")]
    files = tuple(place / "host-canary" for place in places if os.access(place, os.W_OK))
    try:
        for file in files:
            file.write_text(canary)
            file.chmod(0o644)
        yield files
    finally:
        for file in files:
            file.unlink(missing_ok=True)


async def test_nothing_of_the_image_can_be_changed(caller: Caller) -> None:
    """Probe 2: image write."""
    directories = ["/", "/etc", "/usr", "/usr/bin", "/usr/lib", "/lib", "/var/tmp", "/run", "/dev"]
    files = ["/etc/passwd", "/etc/hosts", "/etc/ld.so.cache", "/usr/bin/env", "/bin/sh", "/usr/bin/python3"]
    before, made_before = _fingerprint(directories, files), await _inside(caller, files)

    answers = await caller.probe(IMAGE_WRITES, {"directories": directories, "files": files})

    assert {what: answer for what, answer in answers.items() if answer != "EROFS"} == {}
    assert len(answers) == 7 * len(directories) + 11 * len(files)
    assert _fingerprint(directories, files) == before
    assert await _inside(caller, files) == made_before


def _fingerprint(directories: Sequence[str], files: Sequence[str]) -> dict[str, object]:
    """Of the host's own, from which the image is made."""
    content = {file: hashlib.sha256(Path(file).read_bytes()).hexdigest() for file in files if Path(file).is_file()}
    facts = {place: _facts(Path(place)) for place in (*directories, *files) if Path(place).exists()}
    listed = {
        place: sorted(path.name for path in Path(place).iterdir()) for place in directories[1:6] if Path(place).is_dir()
    }
    return {"content": content, "facts": facts, "listed": listed}


def _facts(path: Path) -> tuple[int, ...]:
    status = path.stat()
    changed = status.st_mtime_ns if stat.S_ISREG(status.st_mode) else 0
    return (status.st_mode, status.st_uid, status.st_gid, status.st_ino, changed)


async def _inside(caller: Caller, files: Sequence[str]) -> str:
    listing = "ls -a /; ls -lan --time-style=full-iso /etc /usr/bin"
    outcome = await caller.shell(f"set -eo pipefail; sha256sum {' '.join(files)}; ({listing}) | sha256sum")
    assert_completed(outcome)
    return outcome.stdout.text


async def test_only_the_three_private_places_and_the_devices_are_writable(caller: Caller) -> None:
    """Probe 3: writable set."""
    seen = await caller.probe(WRITABLE)

    devices = [f"/dev/{name}" for name in ("full", "null", "random", "urandom", "zero")]
    assert seen["writable"] == sorted([*devices, "/dev/shm", "/tmp", "/workspace"])
    assert seen["seen"] > 1000


async def test_files_of_one_run_are_absent_in_the_next(caller: Caller) -> None:
    """Probe 4: residue."""
    fresh = await caller.probe(LOOK)
    for _ in range(4):  # whatever is kept ready for the next call has been used once, too
        assert_completed(await caller.python(LITTER))
        assert await caller.probe(LOOK) == fresh

    assert fresh == {"/workspace": ["given.json", "hostile.py", "main.py"], "/tmp": [], "/dev/shm": []}


async def test_a_symbolic_link_is_refused_and_gives_no_byte_of_what_it_points_to(
    caller: Caller, canary: str, host_files: tuple[Path, ...]
) -> None:
    """Probe 5: symlink output."""
    targets = ["/etc/passwd", "/proc/self/environ", "/proc/1/environ", "../../../etc/passwd", *map(str, host_files)]
    links = "".join(f"ln -s {target} out{number}.txt; " for number, target in enumerate(targets))
    directories = "ln -s /etc etc; mkdir real; echo own > real/file; ln -s real alias; ln -s / real/root; "

    outcome = await caller.shell(links + directories, collect=["*.txt", "etc/*", "alias/*", "real/**", "**/passwd"])

    assert_completed(outcome)
    assert [artifact.path for artifact in outcome.artifacts] == ["real/file"]
    refused = {refusal.path: refusal.reason for refusal in outcome.artifacts_refused}
    expected = [*(f"out{number}.txt" for number in range(len(targets))), "etc", "alias", "real/root"]
    assert {path: refused.get(path) for path in expected} == dict.fromkeys(expected, "symbolic link")
    assert canary not in repr(outcome)
    assert "root:x:" not in repr(outcome)


async def test_a_fifo_is_refused_without_waiting_for_a_writer(caller: Caller) -> None:
    """Probe 7: FIFO output."""
    code = "import os, socket; os.mkfifo('out'); socket.socket(socket.AF_UNIX).bind('sock')"
    took, outcome = await _timed(caller, code, ["out", "sock"])

    assert {refusal.path: refusal.reason for refusal in outcome.artifacts_refused} == {
        "out": "named pipe",
        "sock": "socket",
    }
    assert outcome.artifacts == ()
    assert took < 1.0


async def _timed(caller: Caller, code: str, collect: Sequence[str], **options: str) -> tuple[float, Outcome]:
    """Seconds from the end of the program to the answer, which is the collection and the way back."""
    began = time.monotonic()
    outcome = await caller.python(code, collect=collect, **options)
    took = time.monotonic() - began - outcome.usage.wall_ms / 1000
    assert_completed(outcome)
    return took, outcome


async def test_a_sparse_file_is_refused_by_its_size_without_being_read(caller: Caller) -> None:
    """Probe 9: sparse output."""
    took, outcome = await _timed(caller, "import os; os.truncate(os.open('big', 65), 1 << 40)", ["*"], tool="sparse")

    refused = {refusal.path: refusal.reason for refusal in outcome.artifacts_refused}
    assert f"its {1 << 40} bytes are more than" in refused["big"]
    assert took < 1.0


async def test_a_file_of_a_tebibyte_cannot_be_made_with_the_default_limits(caller: Caller) -> None:
    """Probe 9: sparse output."""
    outcome = await caller.python("import os; os.truncate(os.open('big', 65), 1 << 40)", collect=["**"])

    assert outcome.state is State.FAILED or outcome.exit_code != 0
    assert "big" not in {artifact.path for artifact in outcome.artifacts if artifact.size_bytes}


async def test_a_deep_tree_is_refused_by_its_depth_and_what_is_above_comes_back(caller: Caller) -> None:
    """Probe 11: deep tree."""
    took, outcome = await _timed(caller, DEEP, ["**"])

    deep = [refusal for refusal in outcome.artifacts_refused if "deeper than 64 directories" in refusal.reason]
    assert [refusal.path for refusal in deep] == ["/".join(["d"] * 65)]
    assert {"here", "d/here", "/".join(["d"] * 64) + "/here"} <= {artifact.path for artifact in outcome.artifacts}
    assert not any("bottom" in artifact.path for artifact in outcome.artifacts)
    assert took < 1.0


async def test_names_of_every_kind_come_back_escaped_and_keep_none_of_the_others_away(caller: Caller) -> None:
    """Probe 12: names."""
    names = {
        b"\xff": r"\xff",
        b"a\nb": r"a\x0ab",
        b"\x1b[2J": r"\x1b[2J",
        b"-rf": "-rf",
        b"n" * 255: "n" * 255,
        "rtl\u202egnp.exe".encode(): r"rtl\u202egnp.exe",
        b"tab\tbell\x07": r"tab\x09bell\x07",
        b"back\\slash": r"back\\slash",
        b"\xc3": r"\xc3",
        "\u00e4 \u6f22".encode(): "\u00e4 \u6f22",
        b"plain": "plain",
    }
    code = (
        "import sys\nsys.dont_write_bytecode = True\n"
        "import hostile, os\nfor name in hostile.given():\n    os.close(os.open(bytes(name), 65, 0o600))"
    )

    outcome = await caller.python(code, [list(name) for name in names], collect=["**"])

    assert_completed(outcome)
    expected = {*names.values(), "hostile.py", "given.json"}
    assert {artifact.path for artifact in outcome.artifacts} == expected
    assert outcome.artifacts_refused == ()


@pytest.mark.parametrize(
    "path",
    [
        "../x",
        "/abs",
        "",
        ".",
        "..",
        "a/../../x",
        "a/..",
        "./x",
        "a//x",
        "a/",
        "x\0y",
        "a/./x",
        "/",
        "n" * 256,
        "d/" * 99 + "x",
    ],
    ids=lambda path: repr(path[:12]),
)
async def test_an_input_path_that_leaves_the_workspace_is_invalid_and_nothing_runs(caller: Caller, path: str) -> None:
    """Probe 13: input path."""
    good, bad = (InputFile(path=name, content=b"x") for name in ("good", path))

    outcome = await caller.call("shell", {"command": "ls -a / /workspace"}, files=[good, bad])

    _assert_invalid(outcome, "/files/1/path")


def _assert_invalid(outcome: Outcome, pointer: str) -> None:
    """Refused before any sandbox was there to write in."""
    assert outcome.state is State.FAILED
    assert outcome.error is not None
    assert (outcome.error.error_class, outcome.error.code) == (ErrorClass.INVALID_ARGUMENT, ErrorCode.SCHEMA_VIOLATION)
    assert [violation.pointer for violation in outcome.error.violations] == [pointer]
    assert outcome.isolation is None
    assert outcome.exit_code is None
    assert outcome.stdout.total_bytes == 0


@pytest.mark.parametrize(
    ("paths", "pointer"),
    [
        (["link", "link/x"], "/files/0/path"),
        (["a/b", "a"], "/files/1/path"),
        (["same", "same"], "/files/1/path"),
        ([".command.sh"], "/files/0/path"),
        ([".command.sh/x"], "/files/0/path"),
        (["a/../../etc/x"], "/files/0/path"),
        (["/etc/x"], "/files/0/path"),
    ],
    ids=str,
)
async def test_input_files_that_lie_in_one_anothers_way_are_invalid(
    caller: Caller, paths: list[str], pointer: str
) -> None:
    """Probe 15: archive.

    The contract takes files one by one and no archives, so an entry is a path and a content, never a link. What an
    archive could do with `../`, an absolute name or a file through an earlier entry is tried with such a list's paths.
    """
    files = [InputFile(path=path, content=b"x") for path in paths]

    outcome = await caller.call("shell", {"command": "true"}, files=files)

    _assert_invalid(outcome, pointer)


async def test_a_hostile_archive_among_the_input_files_stays_one_file(caller: Caller) -> None:
    """Probe 15: archive."""
    archive = _archive({"../x": b"up", "/abs": b"absolute", "link/x": b"through"}, links={"link": "/tmp"})

    outcome = await caller.shell(
        "find /workspace /tmp -type f -o -type l | sort; sha256sum < in.tar",
        files=[InputFile(path="in.tar", content=archive)],
    )

    digest = hashlib.sha256(archive).hexdigest()
    assert outcome.stdout.text == f"/workspace/.command.sh\n/workspace/in.tar\n{digest}  -\n"


def _archive(files: Mapping[str, bytes], links: Mapping[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, target in links.items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


async def test_a_setuid_program_runs_as_the_same_user(caller: Caller) -> None:
    """Probe 17: setuid."""
    programs = [
        path for path in ("/usr/bin/su", "/usr/bin/mount", "/usr/bin/passwd", "/usr/bin/umount") if _setuid(path)
    ]
    assert programs, "this host has no setuid program to try"

    answers = await caller.probe(SETUID, programs)

    assert answers == {
        **{path: [1000, 1000, 1000, 1000, 0] for path in programs},
        **{f"copy of {path}": [1000, 1000, 1000, 1000, 0, 1000] for path in programs},
    }


def _setuid(path: str) -> bool:
    return Path(path).exists() and bool(Path(path).stat().st_mode & stat.S_ISUID)


async def test_no_device_capability_or_file_of_root_can_be_made(caller: Caller) -> None:
    """Probe 18: mknod/xattr."""
    answers = await caller.probe(SPECIAL_FILES)

    assert answers == dict.fromkeys(answers, "EPERM")
    assert len(answers) == 9


async def test_locks_and_watches_on_image_files_are_not_shared(caller: Caller) -> None:
    """Probe 19: lock channel."""
    async with caller.running(LOCKER, b"locked", "/usr/bin/env") as locker:
        answers = await caller.probe(LOCK, "/usr/bin/env")
        watched = (await locker).stdout.text.splitlines()[-1]

    assert answers == {"flock": "done", "fcntl": "done"}
    assert watched == "events 0"
