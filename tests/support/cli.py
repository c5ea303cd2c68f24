"""Starts the installed command line as its user would: in pipes, or on a terminal of its own."""

import os
import pty
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.support.hosts import allowance

EXECUTOR = str(Path(sys.executable).with_name("executor"))
PATIENCE_SECONDS = 30.0
_OWN_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)


def environment(state_dir: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("EXECUTOR_")}
    return {
        **kept,
        **allowance(),
        "EXECUTOR_STATE_DIR": str(state_dir),
        "XDG_RUNTIME_DIR": str(state_dir.parent),
        **more,
    }


def eventually(holds: Callable[[], bool], what: str) -> None:
    """Looks again and again until it holds; fails where it does not in time."""
    limit = time.monotonic() + PATIENCE_SECONDS
    pause = threading.Event()
    while not holds():
        assert time.monotonic() < limit, f"still not: {what}"
        pause.wait(0.02)


def is_running(*words: str) -> bool:
    """Whether any process of this host has these words as its last arguments."""
    found = (process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"]))
    return any(tuple(cmdline[-len(words) :]) == words for cmdline in found)


class Terminal:
    """A process whose only input and output is a terminal."""

    def __init__(self, process: "subprocess.Popen[bytes]", master: int) -> None:
        self._process, self._master = process, master
        self._written = bytearray()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def type(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def waits_for_input(self) -> bool:
        """Whether it sleeps in a read of its terminal."""
        state = Path(f"/proc/{self._process.pid}/wchan").read_text()
        return "tty_read" in state or "wait_woken" in state

    def end(self) -> tuple[int, str]:
        """Exit status, and everything that the terminal was told."""
        status = self._process.wait(PATIENCE_SECONDS)
        self._reader.join(PATIENCE_SECONDS)
        return status, self._written.decode()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._master, 4096)
            except OSError:  # EIO: the other side is closed
                return
            self._written += data


@contextmanager
def on_terminal(*words: str, env: Mapping[str, str]) -> Iterator[Terminal]:
    master, slave = pty.openpty()
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", _OWN_TERMINAL, EXECUTOR, *words],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={"TERM": "xterm-256color", "COLUMNS": "120", **env},
            start_new_session=True,
        )
        os.close(slave)
        try:
            yield Terminal(process, master)
        finally:
            process.kill()
            process.wait()
    finally:
        os.close(master)
