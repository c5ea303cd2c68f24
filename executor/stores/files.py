"""The output store on files: full streams and artifacts behind refs, until their time is up or the room is needed.

A ref is 160 random bits. It becomes a file name only after it has passed `_REF`, and only below the directory of the
tenant who asks, so that an absent, an expired, a malformed and a foreign ref are one and the same NotFound. The
modification time of a file is the time of storing. Several processes may share a store; each counts what the others
put there when it sweeps.

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
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from executor.model.errors import BadRequest, NotFound, Unavailable
from executor.stores.directory import Stored, StoreDirectory

_REF = re.compile(r"out_[A-Za-z0-9_-]{26,64}")
_MEMORY_BYTES = 256 * 1024
"""Of each spool; what is longer goes to a file."""
_PIECE_BYTES = 64 * 1024
_SLACK = 0.1
"""Part of the quota that is freed when it is exceeded, so that not every later write has to look at every file."""


class FileOutputStore:
    """Between `start` and `stop`. Raises Unavailable where the directory cannot be used, naming the reason."""

    def __init__(
        self, root: Path, *, ttl_seconds: float, quota_bytes: int, clock: Callable[[], float] = time.time
    ) -> None:
        self.directory = StoreDirectory(root)
        self._ttl_seconds, self._quota_bytes, self._clock = ttl_seconds, quota_bytes, clock
        self._stored_bytes = 0
        self._lock = threading.Lock()
        """Held while files come or go, so that `_stored_bytes` is true."""

    async def start(self) -> None:
        """Removes what a dead process was writing, and what is expired."""
        await asyncio.to_thread(self.directory.open)
        await self.sweep()

    async def stop(self) -> None:
        """Idempotent. A spool that is still open can no longer be kept."""
        await asyncio.to_thread(self.directory.close)

    async def sweep(self) -> None:
        """Removes what is expired, and the oldest where the quota is exceeded."""
        with self._named("swept"):
            await asyncio.to_thread(self._sweep)

    def spool(self, tenant: str) -> "FileSpool":
        return FileSpool(self, tenant)

    async def put(self, content: bytes, tenant: str) -> str:
        spool = self.spool(tenant)
        await asyncio.to_thread(spool.write, content)
        await spool.keep()
        return spool.ref

    async def size(self, ref: str, tenant: str) -> int:
        """In bytes. Raises NotFound."""
        fd, size_bytes = self._open(ref, tenant)
        os.close(fd)
        return size_bytes

    async def read(self, ref: str, tenant: str, start: int = 0, end: int | None = None) -> AsyncGenerator[bytes, None]:
        """The bytes from `start` up to, not including, `end`; what lies beyond the last byte is empty.

        Raises NotFound, and BadRequest for a range that runs backwards, when the first piece is asked for.
        """
        if start < 0 or (end is not None and end < start):
            raise BadRequest(f"The byte range {start}:{end} is not valid: give 0 <= start <= end.")
        fd, size_bytes = self._open(ref, tenant)
        try:
            last = size_bytes if end is None else min(end, size_bytes)
            while start < last:
                with self._named("read"):
                    piece = await asyncio.to_thread(os.pread, fd, min(_PIECE_BYTES, last - start), start)
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

    Ends with `keep` or `discard`; until then nobody can read them.
    """

    def __init__(self, store: FileOutputStore, tenant: str) -> None:
        self._store, self._tenant = store, tenant
        self._ref = "out_" + secrets.token_urlsafe(20)
        self._memory = bytearray()
        self._fd = -1
        self._size_bytes = 0
        self._failure: OSError | Unavailable | None = None
        self._ended = False

    @property
    def ref(self) -> str:
        return self._ref

    def write(self, data: bytes) -> None:
        """Never raises: it is called for each piece as it is read. A failure is told by `keep`."""
        if self._ended:
            return
        self._size_bytes += len(data)
        try:
            if self._fd < 0 and self._size_bytes <= _MEMORY_BYTES:
                self._memory += data
            else:
                self._spill()
                _write_all(self._fd, data)
        except (OSError, Unavailable) as error:
            self._failure = error
            self._release()

    async def keep(self) -> None:
        """What was written can be read when this returns. Raises Unavailable where it could not be stored."""
        await asyncio.to_thread(self._keep)

    async def discard(self) -> None:
        """Idempotent; does nothing after `keep`."""
        if self._fd < 0:
            self._release()  # memory alone: not worth a thread
        else:
            await asyncio.to_thread(self._release)

    def _keep(self) -> None:
        try:
            if self._failure:
                raise self._failure
            if self._ended:
                raise Unavailable(f"What was written under ref {self._ref} was kept or discarded before.")
            self._spill()
            self._store.keep(self._fd, self._ref, self._tenant, self._size_bytes)
        except OSError as error:
            raise Unavailable(
                f"The output store {self._store.directory.root} cannot be written: {error.strerror}. Free space there, "
                "or lower its quota."
            ) from error
        finally:
            self._release()

    def _spill(self) -> None:
        if self._fd < 0:
            self._fd = self._store.directory.create_temporary(self._ref)
            _write_all(self._fd, self._memory)
            self._memory = bytearray()

    def _release(self) -> None:
        self._ended = True
        self._memory = bytearray()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            self._store.directory.remove_temporary(self._ref)  # absent where it was kept


def _write_all(fd: int, data: bytes | bytearray) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
