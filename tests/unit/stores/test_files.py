import asyncio
import errno
import os
import stat
import threading
from pathlib import Path

import pytest

from executor.model.errors import BadRequest, NotFound, Unavailable
from executor.stores import files
from executor.stores.directory import StoreDirectory
from executor.stores.files import FileOutputStore

KIB = 1024
PATIENCE_SECONDS = 30.0


class HangingDirectory(StoreDirectory):
    """On a disk that answers to nothing until it is let go."""

    def __init__(self, root):
        super().__init__(root)
        self.let_go = threading.Event()

    def create_temporary(self, name):
        assert self.let_go.wait(PATIENCE_SECONDS)
        return super().create_temporary(name)


class Clock:
    def __init__(self):
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
async def store(tmp_path, clock):
    store = FileOutputStore(tmp_path / "outputs", ttl_seconds=60, quota_bytes=1000 * KIB, clock=clock)
    await store.start()
    yield store
    await store.stop()


async def content(store, ref, tenant="a", *window) -> bytes:
    return b"".join([piece async for piece in store.read(ref, tenant, *window)])


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def everything(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file())


@pytest.mark.parametrize("size", [0, 1, 64 * KIB, 256 * KIB, 256 * KIB + 1, 900 * KIB])
async def test_what_was_put_is_read_back(store, size):
    data = os.urandom(size)
    ref = await store.put(data, "a")
    assert await content(store, ref) == data
    assert await store.size(ref, "a") == size


async def test_a_spool_gives_its_ref_before_anything_is_written_and_is_unreadable_until_kept(store):
    spool = store.spool("a")
    spool.write(b"first ")
    with pytest.raises(NotFound):
        await store.size(spool.ref, "a")
    spool.write(b"second")
    await spool.keep()
    assert await content(store, spool.ref) == b"first second"


async def test_a_spool_of_many_pieces_keeps_their_order(store):
    spool = store.spool("a")
    pieces = [bytes([n % 251]) * 5000 for n in range(150)]
    for piece in pieces:
        spool.write(piece)
        assert len(spool._memory) <= 256 * KIB
    await spool.keep()
    assert await content(store, spool.ref) == b"".join(pieces)


@pytest.mark.parametrize("size", [10, 300 * KIB])
async def test_a_discarded_spool_leaves_nothing(store, size):
    spool = store.spool("a")
    spool.write(b"x" * size)
    await spool.discard()
    await spool.discard()
    assert everything(store.directory.root) == []
    with pytest.raises(NotFound):
        await store.size(spool.ref, "a")
    with pytest.raises(Unavailable, match="kept or discarded before"):
        await spool.keep()


async def test_discarding_after_keeping_does_nothing(store):
    spool = store.spool("a")
    spool.write(b"x" * 300 * KIB)
    await spool.keep()
    await spool.discard()
    assert await store.size(spool.ref, "a") == 300 * KIB


@pytest.mark.parametrize(
    ("window", "expected"),
    [((0, 3), b"012"), ((7,), b"789"), ((3, 3), b""), ((5, 99), b"56789"), ((99,), b""), ((0, None), b"0123456789")],
)
async def test_a_byte_range_is_half_open(store, window, expected):
    ref = await store.put(b"0123456789", "a")
    assert await content(store, ref, "a", *window) == expected


@pytest.mark.parametrize("window", [(-1, 2), (3, 2)])
async def test_a_range_that_runs_backwards_is_refused(store, window):
    ref = await store.put(b"x", "a")
    with pytest.raises(BadRequest, match="byte range"):
        await content(store, ref, "a", *window)


async def test_reading_goes_in_pieces_and_an_abandoned_reader_leaves_no_descriptor(store):
    ref = await store.put(b"x" * 200 * KIB, "a")
    before = descriptors()
    reader = store.read(ref, "a")
    assert len(await anext(reader)) == 64 * KIB
    await reader.aclose()
    assert descriptors() == before


async def test_absent_foreign_expired_and_malformed_refs_look_the_same(store, clock):
    foreign = await store.put(b"x", "b")
    expired = await store.put(b"x", "a")
    clock.now += 30
    await store.put(b"x", "a")
    clock.now += 30
    kinds = {
        "absent": "out_" + "a" * 27,
        "foreign": foreign,
        "expired": expired,
        "of a path": "../" + "a" * 27,
        "of a tail": "out_" + "a" * 27 + "/..",
        "with a newline": "out_" + "a" * 27 + "\n",
        "empty": "",
        "with NUL": "out_\0" + "a" * 27,
        "long": "out_" + "a" * 5000,
    }
    for ref in kinds.values():
        for ask in (store.size(ref, "a"), content(store, ref)):
            with pytest.raises(NotFound) as caught:
                await ask
            assert str(caught.value) == f"There is no output under ref {ref[:80]!r}: it is not one, or its time is up."


async def test_a_tenant_name_of_any_kind_stays_within_the_store(store, tmp_path):
    tenants = ["../../x", "/etc", "", ".", "tmp-1", "x" * 5000, "\udcff", "\0"]
    refs = [await store.put(tenant.encode("utf-8", "surrogatepass"), tenant) for tenant in tenants]
    for tenant, ref in zip(tenants, refs, strict=True):
        assert await content(store, ref, tenant) == tenant.encode("utf-8", "surrogatepass")
    assert [path.name for path in tmp_path.iterdir()] == ["outputs"]


async def test_a_link_or_pipe_in_the_store_is_not_opened(store):
    ref = await store.put(b"x", "a")
    path = next(path for path in everything(store.directory.root) if path.name == ref)
    path.unlink()
    path.symlink_to("/etc/passwd")
    with pytest.raises(NotFound):
        await content(store, ref)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(NotFound):
        await content(store, ref)


async def test_only_the_owner_may_look(store):
    old = os.umask(0)
    try:
        await store.put(b"x", "a")
    finally:
        os.umask(old)
    root = store.directory.root
    modes = {stat.S_IMODE(path.stat().st_mode) for path in root.rglob("*") if path.is_dir()}
    assert {stat.S_IMODE(root.stat().st_mode)} | modes == {0o700}
    assert {stat.S_IMODE(path.stat().st_mode) for path in everything(root)} == {0o600}


async def test_the_oldest_go_first_when_the_quota_is_exceeded(store, clock):
    refs = []
    for _ in range(11):
        clock.now += 1
        refs.append(await store.put(b"x" * 100 * KIB, "a" if len(refs) % 2 else "b"))
    left = [ref for n, ref in enumerate(refs) if await exists(store, ref, "a" if n % 2 else "b")]
    assert left == refs[-9:]


async def exists(store, ref, tenant="a") -> bool:
    try:
        await store.size(ref, tenant)
    except NotFound:
        return False
    return True


async def test_what_alone_is_larger_than_the_quota_is_refused_by_name(store):
    kept = await store.put(b"x", "a")
    with pytest.raises(Unavailable, match="quota is 1024000 bytes"):
        await store.put(b"x" * 1001 * KIB, "a")
    assert await exists(store, kept)
    assert len(everything(store.directory.root)) == 1


async def test_a_sweep_removes_what_is_expired_and_nothing_else(store, clock):
    await store.put(b"old", "a")
    clock.now += 59
    young = await store.put(b"young", "b")
    clock.now += 1
    await store.sweep()
    assert [path.name for path in everything(store.directory.root)] == [young]


async def test_a_reader_reads_on_while_what_it_reads_is_removed(store, clock):
    ref = await store.put(b"x" * 200 * KIB, "a")
    reader = store.read(ref, "a")
    got = len(await anext(reader))
    clock.now += 60
    await store.sweep()
    assert got + sum([len(piece) async for piece in reader]) == 200 * KIB


async def test_what_was_stored_is_there_after_a_restart(tmp_path, clock):
    first = FileOutputStore(tmp_path / "o", ttl_seconds=60, quota_bytes=KIB, clock=clock)
    await first.start()
    ref = await first.put(b"x", "a")
    await first.stop()
    second = FileOutputStore(tmp_path / "o", ttl_seconds=60, quota_bytes=KIB, clock=clock)
    await second.start()
    assert await content(second, ref) == b"x"
    await second.stop()


async def test_leftovers_of_a_dead_process_go_at_the_start_and_those_of_a_living_one_stay(store, clock):
    root = store.directory.root
    dead = root / "tmp-dead"
    dead.mkdir()
    (dead / "half").write_bytes(b"x")
    spool = store.spool("a")
    spool.write(b"x" * 300 * KIB)
    other = FileOutputStore(root, ttl_seconds=60, quota_bytes=1000 * KIB, clock=clock)
    await other.start()
    assert not dead.exists()
    await spool.keep()
    assert await content(other, spool.ref) == b"x" * 300 * KIB
    await other.stop()


async def test_stopping_leaves_no_descriptor_and_no_temporary_file(tmp_path):
    before = descriptors()
    store = FileOutputStore(tmp_path / "o", ttl_seconds=60, quota_bytes=KIB * KIB)
    await store.start()
    spool = store.spool("a")
    spool.write(b"x" * 300 * KIB)
    await store.stop()
    await store.stop()
    assert list((tmp_path / "o").iterdir()) == []
    await spool.discard()
    assert descriptors() == before


async def test_a_store_that_is_not_started_says_so(tmp_path):
    store = FileOutputStore(tmp_path / "o", ttl_seconds=60, quota_bytes=KIB)
    for ask in (store.put(b"x", "a"), store.size("out_" + "a" * 27, "a"), store.sweep()):
        with pytest.raises(Unavailable, match="not started"):
            await ask


async def test_a_full_disk_is_told_by_keep_and_never_by_write(store, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    spool = store.spool("a")
    spool.write(b"x" * 300 * KIB)
    monkeypatch.setattr(files.os, "write", full)
    spool.write(b"more")
    spool.write(b"and more")
    with pytest.raises(Unavailable, match=r"cannot be written: No space left on device\. Free space"):
        await spool.keep()
    with pytest.raises(Unavailable, match="No space left"):
        await store.put(b"x", "a")
    assert everything(store.directory.root) == []


async def test_a_root_that_cannot_be_a_store_is_refused_with_advice(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(Unavailable, match="Give a directory that belongs to the user"):
        await FileOutputStore(tmp_path / "file", ttl_seconds=1, quota_bytes=1).start()
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "of-somebody").write_bytes(b"")
    shared.chmod(0o755)
    with pytest.raises(Unavailable, match="chmod 700"):
        await FileOutputStore(shared, ttl_seconds=1, quota_bytes=1).start()
    assert stat.S_IMODE(shared.stat().st_mode) == 0o755


async def test_many_at_once_are_all_there(store):
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(store.put(b"%d" % n, "a")) for n in range(50)]
    refs = [task.result() for task in tasks]
    assert len(set(refs)) == 50
    assert [await content(store, ref) for ref in refs] == [b"%d" % n for n in range(50)]


@pytest.fixture
async def hanging(tmp_path):
    store = FileOutputStore(tmp_path / "hanging", ttl_seconds=60, quota_bytes=1000 * KIB)
    store.directory = HangingDirectory(store.directory.root)
    await store.start()
    yield store
    store.directory.let_go.set()
    await store.stop()


async def test_nobody_waits_for_a_disk_that_hangs_until_something_is_to_be_kept(hanging):
    spool = hanging.spool("a")
    for _ in range(3):
        spool.write(b"x" * 300 * KIB)
    kept = asyncio.ensure_future(spool.keep())
    with pytest.raises(NotFound):
        await hanging.size("out_" + "a" * 27, "a")
    assert not kept.done()
    hanging.directory.let_go.set()
    await kept
    assert await hanging.size(spool.ref, "a") == 900 * KIB


async def test_what_waits_for_a_disk_that_hangs_is_bounded(hanging):
    spool = hanging.spool("a")
    piece = b"x" * KIB * KIB
    for _ in range(2 * files._WAITING_BYTES // len(piece)):
        spool.write(piece)
    assert spool._handed_bytes <= files._WAITING_BYTES + 2 * len(piece)
    hanging.directory.let_go.set()
    with pytest.raises(Unavailable, match="written more slowly than the program writes"):
        await spool.keep()
    assert everything(hanging.directory.root) == []


async def test_a_spool_is_discarded_while_it_is_being_written(hanging):
    spool = hanging.spool("a")
    spool.write(b"x" * 300 * KIB)
    discarded = asyncio.ensure_future(spool.discard())
    await asyncio.sleep(0)
    hanging.directory.let_go.set()
    await discarded
    assert everything(hanging.directory.root) == []


async def test_each_of_many_is_kept_or_says_why_not(store):
    contents = [b"a", b"x" * 1001 * KIB, b"", b"b"]
    stored = await store.put_all(contents, "a")
    assert isinstance(stored[1], Unavailable)
    refs = [stored[0], *stored[2:]]
    assert [await content(store, ref) for ref in refs] == [b"a", b"", b"b"]


async def test_a_reader_who_leaves_while_the_store_opens_leaves_no_descriptor(store):
    ref = await store.put(b"x", "a")
    before = descriptors()
    size = asyncio.ensure_future(store.size(ref, "a"))
    await asyncio.sleep(0)
    size.cancel()
    with pytest.raises(asyncio.CancelledError):
        await size
    await store.sweep()
    await asyncio.sleep(0)
    assert descriptors() == before
