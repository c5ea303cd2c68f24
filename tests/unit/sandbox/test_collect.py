import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from executor.model.limits import Limits
from executor.sandbox import beneath, collect
from executor.sandbox.collect import collect_files

LIMITS = Limits(artifact_count=1000, artifact_bytes=1_000_000)
NOBODY = 65534


@pytest.fixture(params=["openat2", "openat"])
def way(request, monkeypatch):
    """Both ways to open a name, whichever this kernel prefers."""
    if request.param == "openat":
        monkeypatch.setattr(beneath, "has_openat2", lambda: False)


@contextmanager
def opened(path: Path) -> Iterator[int]:
    fd = os.open(path, os.O_PATH | os.O_DIRECTORY)
    try:
        yield fd
    finally:
        os.close(fd)


def gather(root: Path, *globs: str, exclude=(), limits=LIMITS, **options):
    with opened(root) as fd:
        collection = collect_files(fd, globs or ("**",), exclude, limits, **options)
    files = {file.path: file.content for file in collection.files}
    return files, {file.path: file.reason for file in collection.refused}


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def fill(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(name.encode())


@pytest.mark.usefixtures("way")
def test_files_that_match_are_read_in_bytewise_order(tmp_path):
    fill(tmp_path, "b.txt", "a/c.txt", "a.txt", "a/d/e.txt", "Z.txt", "other.md")
    files, refused = gather(tmp_path, "**/*.txt")
    assert list(files) == ["Z.txt", "a/c.txt", "a/d/e.txt", "a.txt", "b.txt"]
    assert files["a/d/e.txt"] == b"a/d/e.txt"
    assert refused == {}


def test_no_glob_matches_nothing(tmp_path):
    fill(tmp_path, "a")
    assert gather(tmp_path, "b") == ({}, {})
    assert gather(tmp_path, "/etc/passwd", "../*") == ({}, {})


def test_excluded_paths_are_left_out_without_a_word(tmp_path):
    fill(tmp_path, "main.py", "a/main.py", "out")
    assert gather(tmp_path, exclude=["main.py"]) == ({"a/main.py": b"a/main.py", "out": b"out"}, {})


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"\xff", r"\xff"),
        (b"line\nbreak", r"line\x0abreak"),
        (b"\x1b[2J", r"\x1b[2J"),
        (b"-rf", "-rf"),
        (b"n" * 255, "n" * 255),
        ("a\u202eb".encode(), r"a\u202eb"),
        ("a\u200fb".encode(), r"a\u200fb"),
        ("\U000e0041".encode(), r"\U000e0041"),
        ("\u0080".encode(), r"\u0080"),
        (rb"\xff", r"\\xff"),
        ("Grüße 世界".encode(), "Grüße 世界"),
        (b"\xed\xa0\x80", r"\xed\xa0\x80"),
    ],
)
def test_a_name_of_any_bytes_is_collected_and_shown_without_doubt(tmp_path, name, shown):
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).write_bytes(b"x")
    fill(tmp_path, "neighbour")
    assert gather(tmp_path, "*") == ({shown: b"x", "neighbour": b"neighbour"}, {})


@pytest.mark.usefixtures("way")
def test_what_is_not_a_regular_file_is_refused_by_its_kind(tmp_path):
    fill(tmp_path, "file", "real/inner")
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "relative").symlink_to("file")
    (tmp_path / "directory").symlink_to("real")
    (tmp_path / "broken").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")
    with opened(tmp_path) as fd, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"/proc/self/fd/{fd}/socket")
    files, refused = gather(tmp_path)
    assert sorted(files) == ["file", "real/inner"]
    assert refused == {
        "link": "symbolic link",
        "relative": "symbolic link",
        "directory": "symbolic link",
        "broken": "symbolic link",
        "pipe": "named pipe",
        "socket": "socket",
    }


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
def test_a_device_is_refused_without_being_opened(tmp_path):
    os.mknod(tmp_path / "null", 0o20666, os.makedev(1, 3))
    assert gather(tmp_path) == ({}, {"null": "character device"})


@pytest.mark.usefixtures("way")
def test_a_link_on_the_way_is_refused_and_not_followed(tmp_path):
    outside = tmp_path / "outside"
    fill(outside, "secret")
    root = tmp_path / "root"
    root.mkdir()
    (root / "door").symlink_to(outside)
    assert gather(root, "door/secret", "door/**") == ({}, {"door": "symbolic link"})


def test_a_link_that_takes_the_place_of_a_file_is_not_followed(tmp_path, monkeypatch):
    fill(tmp_path, "file")
    real = os.stat

    def exchanging(name, **options):
        facts = real(name, **options)
        if name == b"file":
            (tmp_path / "file").unlink()
            (tmp_path / "file").symlink_to("/etc/passwd")
        return facts

    monkeypatch.setattr(collect.os, "stat", exchanging)
    assert gather(tmp_path) == ({}, {"file": "symbolic link"})


@pytest.mark.usefixtures("way")
def test_a_directory_exchanged_for_a_link_is_not_followed(tmp_path):
    (tmp_path / "door").symlink_to("/etc")
    with opened(tmp_path) as fd, pytest.raises(OSError, match=r"symbolic|directory") as caught:
        beneath.open_directory([b"door", b"ssl"], fd)
    assert caught.value.errno in {errno.ELOOP, errno.ENOTDIR}


@pytest.mark.usefixtures("way")
def test_another_file_system_is_not_entered():
    with opened(Path("/")) as fd, pytest.raises(OSError, match="link") as caught:
        beneath.open_directory([b"proc"], fd)
    assert beneath.reason(caught.value) == "on another file system"


def test_a_sparse_file_is_refused_by_its_size_without_reading(tmp_path):
    with (tmp_path / "a-sparse").open("wb") as file:
        file.truncate(1 << 40)
    fill(tmp_path, "small")
    files, refused = gather(tmp_path)
    assert files == {"small": b"small"}
    reason = f"its {1 << 40} bytes are more than the 1000000 that are left of 1000000 (artifact_bytes)"
    assert refused == {"a-sparse": reason}


def test_the_bytes_of_all_files_together_are_bounded(tmp_path):
    for name in ("a", "b", "c"):
        (tmp_path / name).write_bytes(b"x" * 40)
    (tmp_path / "d").write_bytes(b"x" * 20)
    files, refused = gather(tmp_path, limits=Limits(artifact_bytes=100))
    assert list(files) == ["a", "b", "d"]
    assert refused == {"c": "its 40 bytes are more than the 20 that are left of 100 (artifact_bytes)"}


def test_the_number_of_files_and_of_refusals_is_bounded(tmp_path):
    fill(tmp_path, *(f"{n:04}" for n in range(300)))
    files, refused = gather(tmp_path, limits=Limits(artifact_count=7))
    assert list(files) == [f"{n:04}" for n in range(7)]
    assert len(refused) == 101
    assert refused["0007"] == "more than 7 files (artifact_count)"
    assert refused["."] == "193 more were refused"


def test_the_number_of_names_looked_at_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(collect, "MAX_ENTRIES", 10)
    fill(tmp_path, *(f"d{n}/{m}" for n in range(5) for m in range(5)))
    files, refused = gather(tmp_path)
    assert len(files) < 10
    assert refused == {".": "there are 10 files or more; the rest was not looked at"}


@pytest.fixture
def chain(tmp_path):
    """Makes directories deeper than a recursive removal can go, and removes them."""

    def make(depth: int) -> None:
        fd = os.open(tmp_path, os.O_RDONLY)
        for _ in range(depth):
            os.mkdir("d", dir_fd=fd)
            inner = os.open("d", os.O_RDONLY, dir_fd=fd)
            os.close(fd)
            fd = inner
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
        os.close(fd)

    yield make
    while (tmp_path / "d/d").exists():
        (tmp_path / "d/d").rename(tmp_path / "rest")
        (tmp_path / "d").rmdir()
        (tmp_path / "rest").rename(tmp_path / "d")


@pytest.mark.usefixtures("way")
def test_a_thousand_nested_directories_are_refused_by_depth(tmp_path, chain):
    chain(1000)
    fill(tmp_path, "shallow")
    before = descriptors()
    files, refused = gather(tmp_path)
    assert files == {"shallow": b"shallow"}
    assert refused == {"/".join(["d"] * 65): "deeper than 64 directories"}
    assert descriptors() == before


def test_the_deepest_directory_that_is_allowed_is_read(tmp_path, chain):
    chain(64)
    assert gather(tmp_path) == ({"/".join(["d"] * 64 + ["file"]): b""}, {})


def test_a_tree_is_walked_with_few_descriptors(tmp_path, chain):
    chain(64)
    with opened(tmp_path) as fd:
        before = descriptors()
        with collect._directory(fd, (b"d",) * 64):
            assert descriptors() == before + 1


@pytest.mark.usefixtures("way")
def test_a_path_longer_than_the_kernel_takes_at_once_is_reached(tmp_path):
    names = ["n" * 250] * 40
    fds = [os.open(tmp_path, os.O_RDONLY)]
    for name in names:
        os.mkdir(name, dir_fd=fds[-1])
        fds.append(os.open(name, os.O_RDONLY, dir_fd=fds[-1]))
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=fds[-1]))
    files, _ = gather(tmp_path)
    os.unlink("file", dir_fd=fds[-1])
    for fd, name in zip(reversed(fds[:-1]), reversed(names), strict=True):
        os.rmdir(name, dir_fd=fd)
    for fd in fds:
        os.close(fd)
    assert files == {"/".join([*names, "file"]): b""}


def test_a_directory_asked_for_by_name_says_how_to_get_what_is_below(tmp_path):
    fill(tmp_path, "out/file")
    assert gather(tmp_path, "out") == ({}, {"out": "a directory: add /** to collect what is below it"})
    assert gather(tmp_path, "*") == ({}, {})


def test_hard_links_of_one_file_count_each(tmp_path):
    fill(tmp_path, "a")
    os.link(tmp_path / "a", tmp_path / "b")
    assert gather(tmp_path, limits=Limits(artifact_bytes=1))[0] == {"a": b"a"}


@contextmanager
def ordinary_user(*paths: Path) -> Iterator[None]:
    """As root: somebody else for a while, who owns `paths`."""
    if os.geteuid() != 0:
        yield
        return
    for path in paths:
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.usefixtures("way")
def test_what_its_owner_closed_is_opened_where_it_is_ours(tmp_path):
    fill(tmp_path, "closed/file", "listed/file", "secret")
    (tmp_path / "closed").chmod(0)
    (tmp_path / "listed").chmod(0o400)
    (tmp_path / "secret").chmod(0)
    tmp_path.chmod(0)
    with opened(tmp_path) as fd, ordinary_user(tmp_path, *tmp_path.rglob("*")):
        collection = collect_files(fd, ["**"], [], LIMITS)
    assert [file.path for file in collection.files] == ["closed/file", "listed/file", "secret"]
    assert collection.refused == ()


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files of another user")
def test_what_another_user_closed_is_refused_by_permission(tmp_path):
    fill(tmp_path, "closed/file", "secret")
    (tmp_path / "closed").chmod(0)
    (tmp_path / "secret").chmod(0)
    with opened(tmp_path) as fd, ordinary_user(tmp_path):
        collection = collect_files(fd, ["**"], [], LIMITS)
    assert {file.path: file.reason for file in collection.refused} == {
        "closed": "no permission",
        "secret": "no permission",
    }
