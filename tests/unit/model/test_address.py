import os
from pathlib import Path

import pytest

from executor.model.address import TcpAddress, UnixAddress, default_address, parse_address
from executor.model.errors import Misconfigured


@pytest.mark.parametrize(
    ("text", "address", "target"),
    [
        ("unix:/run/x.sock", UnixAddress(Path("/run/x.sock")), "unix:/run/x.sock"),
        ("unix:///run/x.sock", UnixAddress(Path("/run/x.sock")), "unix:/run/x.sock"),
        ("127.0.0.1:50051", TcpAddress("127.0.0.1", 50051), "127.0.0.1:50051"),
        ("127.1.2.3:0", TcpAddress("127.1.2.3", 0), "127.1.2.3:0"),
        ("localhost:1", TcpAddress("localhost", 1), "localhost:1"),
        ("[::1]:1", TcpAddress("::1", 1), "[::1]:1"),
    ],
)
def test_an_address_is_read(text: str, address: object, target: str) -> None:
    assert parse_address(text) == address
    assert parse_address(text).target == target


@pytest.mark.parametrize(
    "text",
    ["", "unix:", "unix:relative", "unix:/a\0b", "127.0.0.1", "127.0.0.1:", ":1", "127.0.0.1:65536", "a:-1", "a:٣"],
)
def test_what_is_no_address_is_refused_with_the_two_forms(text: str) -> None:
    with pytest.raises(Misconfigured, match="is not valid: write unix:"):
        parse_address(text)


@pytest.mark.parametrize("text", ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "example.org:1", "127.0.0.1.evil.org:1"])
def test_an_address_beyond_loopback_is_refused(text: str) -> None:
    with pytest.raises(Misconfigured, match="TLS and tokens are not available yet"):
        parse_address(text)


def test_a_socket_path_that_the_kernel_cannot_hold_is_refused() -> None:
    assert parse_address("unix:/" + "a" * 106)
    with pytest.raises(Misconfigured, match="at most 107 bytes"):
        parse_address("unix:/" + "ä" * 54)


def test_the_default_is_below_the_runtime_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    assert default_address() == "unix:/run/user/7/executor/executor.sock"


@pytest.fixture
def fallback(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No runtime directory; where the socket goes instead."""
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("os.access", lambda *_: False)
    return tmp_path / f"executor-{os.getuid()}"


def test_without_a_runtime_directory_it_is_in_one_of_our_own(fallback: Path) -> None:
    assert default_address() == f"unix:{fallback}/executor.sock"
    fallback.mkdir(mode=0o700)
    assert default_address() == f"unix:{fallback}/executor.sock"


def test_a_directory_that_others_may_enter_is_refused(fallback: Path) -> None:
    fallback.mkdir()
    fallback.chmod(0o755)
    with pytest.raises(Misconfigured, match="mode 0700"):
        default_address()


def test_a_link_in_its_place_is_refused(fallback: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    fallback.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Misconfigured, match="must be a directory of this user"):
        default_address()
