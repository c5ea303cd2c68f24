"""Where a service listens and a client finds it: one notation, one default, for both.

Plain text goes over a Unix socket, or over TCP that never leaves the machine. Anything else is refused here, for the
client as for the server, because nothing would keep it secret or tell who calls.
"""

import ipaddress
import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from executor.model.errors import Misconfigured

SOCKET_NAME = "executor.sock"
_MAX_PATH_BYTES = 107
"""`sun_path` of Linux, less its NUL."""


@dataclass(frozen=True, slots=True)
class UnixAddress:
    path: Path

    @property
    def target(self) -> str:
        """As gRPC writes it."""
        return f"unix:{self.path}"


@dataclass(frozen=True, slots=True)
class TcpAddress:
    host: str
    port: int
    """0 lets the kernel choose one; only to listen."""

    @property
    def target(self) -> str:
        """As gRPC writes it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


Address = UnixAddress | TcpAddress


def parse_address(text: str) -> Address:
    """`unix:/path` or `HOST:PORT` with a loopback host. Raises Misconfigured, naming what is wrong."""
    if text.startswith("unix:"):
        return _unix(text)
    return _tcp(text)


def default_address() -> str:
    """The Unix socket of this user's own service. Raises Misconfigured where its directory is not safely ours."""
    return f"unix:{_runtime_directory() / SOCKET_NAME}"


def _unix(text: str) -> UnixAddress:
    path = text.removeprefix("unix:")
    path = "/" + path.lstrip("/") if path.startswith("//") else path
    if not path.startswith("/") or "\0" in path:
        raise Misconfigured(f"The address {text!r} is not valid: write unix: and an absolute path.")
    if len(os.fsencode(path)) > _MAX_PATH_BYTES:
        raise Misconfigured(
            f"The address {text!r} is too long: the path of a Unix socket holds at most {_MAX_PATH_BYTES} bytes."
        )
    return UnixAddress(Path(path))


def _tcp(text: str) -> TcpAddress:
    host, _, port = text.rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:  # noqa: PLR2004 - 16 bits
        raise Misconfigured(f"The address {text!r} is not valid: write unix:/path or HOST:PORT.")
    if not _is_loopback(host):
        raise Misconfigured(
            f"The address {text!r} is not on this machine's loopback interface, and TLS and tokens are not available "
            "yet: use a Unix socket, 127.0.0.1 or [::1], and reach it from elsewhere through a tunnel such as ssh -L."
        )
    return TcpAddress(host, int(port))


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _runtime_directory() -> Path:
    if given := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(given) / "executor"
    ours = Path(f"/run/user/{os.getuid()}")
    if ours.is_dir() and os.access(ours, os.W_OK):
        return ours / "executor"
    fallback = Path(tempfile.gettempdir()) / f"executor-{os.getuid()}"
    _refuse_foreign(fallback)
    return fallback


def _refuse_foreign(directory: Path) -> None:
    """Everybody may write to the directory above: whoever made this one first could answer in our name."""
    try:
        found = directory.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise Misconfigured(
            f"{directory} must be a directory of this user with mode 0700, and is not: "
            "remove it, set XDG_RUNTIME_DIR, or name an address."
        )
