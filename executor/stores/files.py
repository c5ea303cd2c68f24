"""The output store on files: full streams and artifacts behind refs, until their time is up or the room is needed.

A ref is 160 random bits. It becomes a file name only after it has passed `_REF`, and only below the directory of the
tenant who asks, so that an absent, an expired, a malformed and a foreign ref are one and the same NotFound. The
modification time of a file is the time of storing. Several processes may share a store; each counts what the others
put there when it sweeps.

Whatever touches the disk runs in the store's own threads, so that a slow disk holds up nobody who does not need it.

Accepted imprecision: what is stored outlives the process and not a power failure (no fsync); what is still being
written does not count against the quota (each stream is bounded by its own limit).
"""

import asyncio
import errno
import os
import re
import secrets
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import ParamSpec, TypeVar

from executor.model.errors import BadRequest, NotFound, Unavailable
from executor.stores.directory import Stored, StoreDirectory

_REF = re.compile(r"out_[A-Za-z0-9_-]{26,64}")
_MEMORY_BYTES = 256 * 1024
"""Of each spool; what is longer goes to a file."""
_WAITING_BYTES = 64 * 1024 * 1024
"""Of each spool, on their way to its file; a disk that is so much slower than the program loses the spool."""
_BEHIND_BYTES = 1024 * 1024
_THREADS = 4
_PIECE_BYTES = 64 * 1024
_SLACK = 0.1
"""Part of the quota that is freed when it is exceeded, so that not every later write has to look at every file."""

P = ParamSpec("P")
T = TypeVar("T")


class FileOutputStore:
    """Between `start` and `stop`. Raises Unavailable where the directory cannot be used, naming the reason."""

    def __init__(
        self, root: Path, *, ttl_seconds: float, quota_bytes: int, clock: Callable[[], float] = time.time
    ) -> None:
        self.directory = StoreDirectory(root)
        self._ttl_seconds, self._quota_bytes, self._clock = ttl_seconds, quota_bytes, clock
        self._stored_bytes = 0
        self._threads: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()
        """Held while files come or go, so that `_stored_bytes` is true."""

    async def start(self) -> None:
        """Removes what a dead process was writing, and what is expired."""
        await self.in_thread(self.directory.open)
        await self.sweep()

    async def stop(self) -> None:
        """Idempotent. A spool that is still open can no longer be kept."""
        if self._threads is not None:
            await asyncio.to_thread(self._threads.shutdown)
            self._threads = None
        await asyncio.to_thread(self.directory.close)

    async def sweep(self) -> None:
        """Removes what is expired, and the oldest where the quota is exceeded."""
        with self._named("swept"):
            await self.in_thread(self._sweep)

    def spool(self, tenant: str) -> "FileSpool":
        return FileSpool(self, tenant)

    async def put(self, content: bytes, tenant: str) -> str:
        """Gives the ref. Raises Unavailable."""
        (stored,) = await self.put_all([content], tenant)
        if isinstance(stored, Unavailable):
            raise stored
        return stored

    async def put_all(self, contents: Sequence[bytes], tenant: str) -> Sequence[str | Unavailable]:
        """For each its ref, or why it could not be stored."""
        return await self.in_thread(lambda: [self._put(content, tenant) for content in contents])

    async def size(self, ref: str, tenant: str) -> int:
        """In bytes. Raises NotFound."""
        fd, size_bytes = await self._opened(ref, tenant)
        os.close(fd)
        return size_bytes

    async def read(self, ref: str, tenant: str, start: int = 0, end: int | None = None) -> AsyncGenerator[bytes, None]:
        """The bytes from `start` up to, not including, `end`; what lies beyond the last byte is empty.

        Raises NotFound, and BadRequest for a range that runs backwards, when the first piece is asked for.
        """
        if start < 0 or (end is not None and end < start):
            raise BadRequest(f"The byte range {start}:{end} is not valid: give 0 <= start <= end.")
        fd, size_bytes = await self._opened(ref, tenant)
        try:
            last = size_bytes if end is None else min(end, size_bytes)
            while start < last:
                with self._named("read"):
                    piece = await self.in_thread(os.pread, fd, min(_PIECE_BYTES, last - start), start)
                if not piece:
                    return
                yield piece
                start += len(piece)
        finally:
            os.close(fd)

    def keep(self, fd: int, ref: str, tenant: str, size_bytes: int) -> None:
        """For spools: makes a finished temporary file readable under its ref. Raises Unavailable or OSError."""
        if size_bytes > self._quota_bytes:
            raise Unavailable(
                f"{size_bytes} bytes do not fit into the output store {self.directory.root}, whose quota is "
                f"{self._quota_bytes} bytes: raise the quota, or lower the limits of the tool."
            )
        now = self._clock()
        os.utime(fd, (now, now))
        with self._lock:
            self.directory.publish(ref, tenant)
            self._stored_bytes += size_bytes
        if self._stored_bytes > self._quota_bytes:
            self._sweep()

    def in_thread(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        """Begins `work` in a thread of the store, or lets it wait for one."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="outputs")
        return asyncio.get_running_loop().run_in_executor(self._threads, lambda: work(*args, **kwargs))

    def _put(self, content: bytes, tenant: str) -> str | Unavailable:
        spool = self.spool(tenant)
        try:
            spool.keep_all(content)
        except Unavailable as error:
            return error
        return spool.ref

    async def _opened(self, ref: str, tenant: str) -> tuple[int, int]:
        """A descriptor and the size. Raises NotFound."""
        opening = self.in_thread(self._open, ref, tenant)
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_close_opened)
            raise

    def _open(self, ref: str, tenant: str) -> tuple[int, int]:
        absent = NotFound(f"There is no output under ref {ref[:80]!r}: it is not one, or its time is up.")
        if not _REF.fullmatch(ref):
            raise absent
        with self._named("read"):
            try:
                fd, facts = self.directory.open_stored(ref, tenant)
            except OSError as error:
                if error.errno in {None, errno.ENOENT, errno.ELOOP}:
                    raise absent from None
                raise
        if self._expired(facts.st_mtime_ns):
            os.close(fd)  # removed by the sweep, which counts what it removes
            raise absent
        return fd, facts.st_size

    @contextmanager
    def _named(self, done: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise Unavailable(f"The output store {self.directory.root} cannot be {done}: {error.strerror}.") from error

    def _expired(self, time_ns: int) -> bool:
        return time_ns / 1e9 + self._ttl_seconds <= self._clock()

    def _sweep(self) -> None:
        with self._lock:
            kept = []
            for stored in self.directory.stored():
                if self._expired(stored.time_ns):
                    self.directory.remove(stored)
                else:
                    kept.append(stored)
            self._stored_bytes = sum(stored.size_bytes for stored in kept)
            if self._stored_bytes > self._quota_bytes:
                self._make_room(sorted(kept))

    def _make_room(self, oldest_first: list[Stored]) -> None:
        for stored in oldest_first[:-1]:  # never the newest: somebody is about to be told its ref
            if self._stored_bytes <= self._quota_bytes * (1 - _SLACK):
                break
            self.directory.remove(stored)
            self._stored_bytes -= stored.size_bytes


class FileSpool:
    """Bytes on their way into the store: in memory while they are few, in a temporary file once they are not.

    Ends with `keep` or `discard`; until then nobody can read them. Used on the event loop; what is written goes to the
    file in a thread, piece after piece.
    """

    def __init__(self, store: FileOutputStore, tenant: str) -> None:
        self._store, self._tenant = store, tenant
        self._ref = "out_" + secrets.token_urlsafe(20)
        self._memory = bytearray()
        self._waiting: deque[bytearray] = deque()
        """For the thread, in order."""
        self._writing: asyncio.Future[None] | None = None
        self._fd = -1
        self._size_bytes = self._handed_bytes = self._written_bytes = 0
        self._failure: OSError | Unavailable | None = None
        self._ended = False

    @property
    def ref(self) -> str:
        return self._ref

    def write(self, data: bytes) -> bool:
        """Never raises, never waits: it is called for each piece as it is read. A failure is told by `keep`. True where
        the disk is behind.
        """
        if self._ended or self._failure:
            return False
        self._size_bytes += len(data)
        self._memory += data
        if len(self._memory) > _MEMORY_BYTES:
            self._hand_over()
        return self._handed_bytes - self._written_bytes > _BEHIND_BYTES

    async def keep(self) -> None:
        """What was written can be read when this returns. Raises Unavailable where it could not be stored."""
        await self._settled()
        await self._store.in_thread(self._keep)

    async def discard(self) -> None:
        """Idempotent; does nothing after `keep`."""
        if self._writing is None:
            self._release()  # memory alone: not worth a thread
            return
        self._ended = True
        await self._settled()
        await self._store.in_thread(self._release)

    def keep_all(self, content: bytes) -> None:
        """Instead of `write` and `keep`, for who is in a thread. Raises Unavailable."""
        self._size_bytes = len(content)
        self._keep(content)

    def _hand_over(self) -> None:
        self._waiting.append(self._memory)
        self._handed_bytes += len(self._memory)
        self._memory = bytearray()
        if self._handed_bytes - self._written_bytes > _WAITING_BYTES:
            self._waiting.clear()
            self._failure = Unavailable(
                f"The output store {self._store.directory.root} is written more slowly than the program writes. Use a "
                "faster disk, or lower the tool's output_bytes."
            )
        elif self._writing is None or self._writing.done():
            self._writing = self._store.in_thread(self._write_waiting)

    async def _settled(self) -> None:
        if self._writing is not None:
            await asyncio.wait((self._writing,))

    def _write_waiting(self) -> None:
        """What comes too late for one turn is written in the next, or by `keep`."""
        try:
            while self._waiting and not (self._ended or self._failure):
                pieces = [self._waiting.popleft() for _ in range(len(self._waiting))]
                self._write(b"".join(pieces))  # at once: after each write this thread waits for its turn
        except (OSError, Unavailable) as error:
            self._failure = error
            self._waiting.clear()

    def _write(self, data: bytes | bytearray) -> None:
        if self._fd < 0:
            self._fd = self._store.directory.create_temporary(self._ref)
        _write_all(self._fd, data)
        self._written_bytes += len(data)

    def _keep(self, rest: bytes | None = None) -> None:
        try:
            self._write_waiting()
            if self._failure:
                raise self._failure
            if self._ended:
                raise Unavailable(f"What was written under ref {self._ref} was kept or discarded before.")
            self._write(self._memory if rest is None else rest)
            self._store.keep(self._fd, self._ref, self._tenant, self._size_bytes)
        except OSError as error:
            raise Unavailable(
                f"The output store {self._store.directory.root} cannot be written: {error.strerror}. Free space there, "
                "or lower its quota."
            ) from error
        finally:
            self._release()

    def _release(self) -> None:
        self._ended = True
        self._memory = bytearray()
        self._waiting.clear()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            self._store.directory.remove_temporary(self._ref)  # absent where it was kept


def _close_opened(opening: "asyncio.Future[tuple[int, int]]") -> None:
    if not opening.cancelled() and opening.exception() is None:
        os.close(opening.result()[0])


def _write_all(fd: int, data: bytes | bytearray) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
