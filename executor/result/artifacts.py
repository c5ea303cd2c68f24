"""What kind of file an artifact is: a guess from its name and first bytes, for display, never for a decision."""

import mimetypes
from functools import cache

_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"PK\x05\x06", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"BZh", "application/x-bzip2"),
    (b"\xfd7zXZ\x00", "application/x-xz"),
    (b"\x28\xb5\x2f\xfd", "application/zstd"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (b"SQLite format 3\x00", "application/vnd.sqlite3"),
    (b"\x7fELF", "application/x-elf"),
    (b"\x00asm", "application/wasm"),
    (b"OggS", "audio/ogg"),
    (b"PAR1", "application/vnd.apache.parquet"),
    (b"\x93NUMPY", "application/x-npy"),
)
_RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/x-wav"}
_CONTAINERS = frozenset({"application/zip"})
"""Formats that others are made of; the name says which."""
_OFFICE = {
    ".docx": "wordprocessingml.document",
    ".pptx": "presentationml.presentation",
    ".xlsx": "spreadsheetml.sheet",
}
_ENCODINGS = {"gzip": "application/gzip", "bzip2": "application/x-bzip2", "xz": "application/x-xz"}
_TEXTUAL = ("text/", "application/json", "application/xml", "application/javascript", "image/svg+xml")


def media_type(path: str, first_bytes: bytes) -> str:
    """Bytes that name their own format win over the name; a name is believed only where the bytes allow it."""
    magic, named = _by_magic(first_bytes), _by_name(path)
    if magic:
        return named if magic in _CONTAINERS and named and not _is_textual(named) else magic
    if not _looks_like_text(first_bytes):
        return named if named and not _is_textual(named) and not _has_magic(named) else "application/octet-stream"
    return named if named and _is_textual(named) else "text/plain"


def _by_magic(first_bytes: bytes) -> str | None:
    if first_bytes.startswith(b"RIFF"):
        return _RIFF.get(first_bytes[8:12])
    return next((kind for magic, kind in _MAGIC if first_bytes.startswith(magic)), None)


@cache
def _types() -> mimetypes.MimeTypes:
    types = mimetypes.MimeTypes()  # the interpreter's own table: the host's /etc/mime.types would differ by machine
    for suffix, kind in _OFFICE.items():
        types.add_type(f"application/vnd.openxmlformats-officedocument.{kind}", suffix)
    return types


def _by_name(path: str) -> str | None:
    name = path.rpartition("/")[2]
    kind, encoding = _types().guess_type(f"file/{name}")  # a bare name such as `data:x` would be taken for a URL
    return _ENCODINGS.get(encoding) if encoding else kind


def _has_magic(kind: str) -> bool:
    return any(kind == known for _, known in _MAGIC)


def _is_textual(kind: str) -> bool:
    return kind.startswith(_TEXTUAL)


def _looks_like_text(first_bytes: bytes) -> bool:
    if b"\x00" in first_bytes:
        return False
    try:
        first_bytes.decode()
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data"
    return True
