import os
import socket
import stat
from pathlib import Path

import pytest

from executor.ingress.sockets import only_ours, remove
from executor.model.errors import Misconfigured, Unavailable


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "x.sock"


def listen(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    return listener


def test_a_socket_is_born_private_in_a_private_directory(path: Path) -> None:
    with only_ours(path):
        listen(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_two_who_start_at_once_do_not_both_win(path: Path) -> None:
    with only_ours(path), pytest.raises(Unavailable, match="just starting"), only_ours(path):
        pass


def test_one_who_listens_is_left_alone(path: Path) -> None:
    with only_ours(path):
        listener = listen(path)
    with listener, pytest.raises(Unavailable, match="Another server listens"), only_ours(path):
        pass
    assert path.exists()


def test_one_with_a_full_backlog_is_alive(path: Path) -> None:
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
        listener.bind(str(path))
        listener.listen(0)
        client.connect(str(path))
        with pytest.raises(Unavailable, match="Another server listens"), only_ours(path):
            pass


def test_a_link_is_not_followed(path: Path, tmp_path: Path) -> None:
    path.parent.mkdir()
    (tmp_path / "precious").write_text("x")
    path.symlink_to(tmp_path / "precious")
    with pytest.raises(Misconfigured, match="not a socket"), only_ours(path):
        pass
    assert (tmp_path / "precious").exists()


def test_a_directory_that_everybody_may_write_to_is_refused(path: Path) -> None:
    path.parent.mkdir()
    path.parent.chmod(0o777)
    with pytest.raises(Misconfigured, match="other users"), only_ours(path):
        pass


def test_a_directory_like_tmp_is_taken(path: Path) -> None:
    path.parent.mkdir()
    path.parent.chmod(0o1777)
    with only_ours(path):
        listen(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.root
@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a directory away")
def test_a_directory_of_somebody_else_is_refused(path: Path) -> None:
    path.parent.mkdir()
    os.chown(path.parent, 12345, 12345)
    with pytest.raises(Misconfigured, match="other users"), only_ours(path):
        pass


def test_a_directory_that_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Misconfigured, match="cannot be used"), only_ours(tmp_path / "file" / "x.sock"):
        pass


def test_only_our_own_socket_is_removed(path: Path) -> None:
    path.parent.mkdir()
    listen(path).close()
    remove(path, path.stat().st_ino + 1)
    assert path.exists()
    remove(path, path.stat().st_ino)
    assert not path.exists()
    remove(path, 1)
