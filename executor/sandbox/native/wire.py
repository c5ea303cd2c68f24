"""What server, launcher, template and init say to each other, one packet each, with descriptors beside it.

Downwards, to one that is less trusted, go plain values by `marshal`; upwards come words of text alone, because what
comes from a sandbox must be safe to read. Imported by the launcher: builtin modules only.
"""

import _socket
import marshal
import os
import sys

TYPE_CHECKING = False  # `typing` would cost each sandbox memory
if TYPE_CHECKING:
    from typing import Any

    Plain = Any
    """What a packet can hold: numbers, texts, bytes, None, tuples, mappings and records of these."""

PACKET_BYTES = 200_000
_FORMAT = 4
"""Of marshal: what every Python from 3.4 on reads."""
_FD_BYTES = 4
A_RECORD = {"": True}
"""What tells a record from a mapping; no field has that name."""
Record: "Plain" = type(sys.implementation)
"""A plain object with attributes."""


class Gone(OSError):
    """The other end was closed."""


def packed(value: "Plain") -> bytes:
    """`value`: numbers, texts, bytes, tuples, lists, mappings and, from `plan.record`, records."""
    return marshal.dumps(value, _FORMAT)


def unpacked(data: bytes) -> "Plain":
    """Only for what a more trusted process said."""
    return _with_records(marshal.loads(data))  # noqa: S302 - see above


def _with_records(value: "Plain") -> "Plain":
    if isinstance(value, dict):
        inner = {key: _with_records(item) for key, item in value.items()}
        return Record(**{key: item for key, item in inner.items() if key}) if "" in inner else inner
    if isinstance(value, (list, tuple)):
        return tuple(_with_records(item) for item in value)
    return value


def send(socket: "_socket.socket", data: bytes, fds: "tuple[int, ...]" = ()) -> None:
    """Raises OSError."""
    if not fds:
        socket.send(data)
        return
    packed_fds = b"".join(fd.to_bytes(_FD_BYTES, sys.byteorder) for fd in fds)
    socket.sendmsg([data], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, packed_fds)])


def receive(socket: "_socket.socket", most_fds: int = 0) -> "tuple[bytes, tuple[int, ...]]":
    """Descriptors close on exec. Raises Gone, and BlockingIOError on a socket that does not block."""
    room = _socket.CMSG_SPACE(most_fds * _FD_BYTES) if most_fds else 0
    data, ancillary, _, _ = socket.recvmsg(PACKET_BYTES, room, _socket.MSG_CMSG_CLOEXEC)
    fds: list[int] = []
    for level, kind, content in ancillary:
        if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
            for start in range(0, len(content) - len(content) % _FD_BYTES, _FD_BYTES):
                fds.append(int.from_bytes(content[start : start + _FD_BYTES], sys.byteorder))  # noqa: PERF401
    if not data:
        for fd in fds:
            os.close(fd)
        raise Gone("the other end was closed")
    return data, tuple(fds)


def say(socket: "_socket.socket", *words: "object", fds: "tuple[int, ...]" = ()) -> None:
    """The last word may hold blanks."""
    send(socket, " ".join(map(str, words)).encode("utf-8", "surrogateescape"), fds)


def pair() -> "tuple[_socket.socket, _socket.socket]":
    return _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET | _socket.SOCK_CLOEXEC)


def read_file(fd: int) -> bytes:
    """The whole of a file that lies in memory; closes it."""
    try:
        return os.pread(fd, os.fstat(fd).st_size, 0)
    finally:
        os.close(fd)
