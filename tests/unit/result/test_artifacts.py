import pytest

from executor.result.artifacts import media_type

PNG = b"\x89PNG\r\n\x1a\n\x00\x00"


@pytest.mark.parametrize(
    ("path", "first_bytes", "expected"),
    [
        ("plot.png", PNG, "image/png"),
        ("out/plot", PNG, "image/png"),
        ("lies.txt", PNG, "image/png"),
        ("page.png", b"<script>", "text/plain"),
        ("page.html", b"<html>", "text/html"),
        ("data.csv", b"a,b\n", "text/csv"),
        ("data.json", b"{}", "application/json"),
        ("book.xlsx", b"PK\x03\x04", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
        ("plain.zip", b"PK\x03\x04", "application/zip"),
        ("zipped.txt", b"PK\x03\x04", "application/zip"),
        ("logs.tar.gz", b"\x1f\x8b\x08", "application/gzip"),
        ("photo", b"\xff\xd8\xff\xe0", "image/jpeg"),
        ("sound", b"RIFF\x00\x00\x00\x00WAVE", "audio/x-wav"),
        ("no.db", b"SQLite format 3\x00", "application/vnd.sqlite3"),
        ("noise.png", b"\x00\x01", "application/octet-stream"),
        ("noise.txt", b"\xff\x00", "application/octet-stream"),
        ("README", "Grüße".encode(), "text/plain"),
        ("cut", "Grüße€".encode()[:-1], "text/plain"),
        ("-rf", b"", "text/plain"),
        ("data:image/png,x", b"x", "text/plain"),
    ],
)
def test_bytes_win_over_the_name_and_a_name_is_believed_where_they_allow_it(path, first_bytes, expected):
    assert media_type(path, first_bytes) == expected
