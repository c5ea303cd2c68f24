"""What the contract tests ask a sandbox to do, as intents: each backend has its own words for the same thing."""

import os
from typing import Protocol

Argv = tuple[str, ...]
ODD_NAME = b"odd\xff\nname"
"""Not UTF-8, and with a control character."""


class Programs(Protocol):
    """Every path is relative to /workspace, or absolute."""

    def exit(self, code: int) -> Argv: ...

    def die_of(self, signal: str) -> Argv:
        """The main process dies of this signal, named without SIG."""
        ...

    def echo(self, *words: str) -> Argv:
        """The words on stdout, with one space between and a newline after."""
        ...

    def say(self, out: str, err: str, code: int = 0) -> Argv:
        """One line on stdout, one on stderr, then exit."""
        ...

    def copy(self, *, to_stderr: bool = False) -> Argv:
        """What stands on stdin, as it is, to one stream."""
        ...

    def count(self, number: int) -> Argv:
        """Lines `o1` ... on stdout and `e1` ... on stderr, in turn."""
        ...

    def environment(self) -> Argv:
        """`name=value` on stdout, each ended by NUL."""
        ...

    def directory(self) -> Argv:
        """The working directory, on stdout."""
        ...

    def sleep(self, word: str) -> Argv:
        """`word` is seconds; then exit with 0."""
        ...

    def zeros(self, number: int, code: int = 0) -> Argv:
        """So many NUL bytes on stdout, then exit."""
        ...

    def flood(self) -> Argv:
        """Writes to stdout without end."""
        ...

    def flood_both(self) -> Argv:
        """Writes to both streams without end, from two processes."""
        ...

    def tree(self, word: str) -> Argv:
        """Prints `ready`, then sleeps `word` seconds in three processes that ignore SIGTERM; one left the session."""
        ...

    def leave_behind(self, word: str) -> Argv:
        """Prints `done` and exits with 0; a process that holds both streams open sleeps on for `word` seconds."""
        ...

    def write(self, files: dict[str, str]) -> Argv:
        """Text files; directories are made."""
        ...

    def write_odd_name(self) -> Argv:
        """A file of the name ODD_NAME, in the working directory."""
        ...

    def link(self, target: str, path: str) -> Argv:
        """A symbolic link."""
        ...

    def fifo(self, path: str) -> Argv: ...

    def list(self, *directories: str) -> Argv:
        """Names, one a line."""
        ...

    def read(self, path: str) -> Argv: ...

    def script(self, text: str) -> bytes:
        """Content of an executable file that prints this text and a newline."""
        ...

    def use_cpu(self) -> Argv:
        """Without end."""
        ...

    def use_memory(self) -> Argv:
        """Without end."""
        ...

    def use_processes(self) -> Argv:
        """Start them until one is refused, then exit with a code that is not 0."""
        ...

    def use_disk(self) -> Argv:
        """Fill /workspace until a write is refused, then exit with a code that is not 0."""
        ...


class FakePrograms:
    """In the words of executor/sandbox/fake_programs.py."""

    def exit(self, code: int) -> Argv:
        return ("exit", str(code))

    def die_of(self, signal: str) -> Argv:
        return ("kill", f"-{signal}")

    def echo(self, *words: str) -> Argv:
        return ("echo", *words)

    def say(self, out: str, err: str, code: int = 0) -> Argv:
        return ("steps", "echo", out, ";", "warn", err, ";", "exit", str(code))

    def copy(self, *, to_stderr: bool = False) -> Argv:
        return ("warn",) if to_stderr else ("cat",)

    def count(self, number: int) -> Argv:
        return ("count", str(number))

    def environment(self) -> Argv:
        return ("env", "-0")

    def directory(self) -> Argv:
        return ("pwd",)

    def sleep(self, word: str) -> Argv:
        return ("sleep", word)

    def zeros(self, number: int, code: int = 0) -> Argv:
        return ("steps", "zeros", str(number), ";", "exit", str(code))

    def flood(self) -> Argv:
        return ("yes",)

    def flood_both(self) -> Argv:
        return ("steps", "spawn", "yes", "--stderr", ";", "yes")

    def tree(self, word: str) -> Argv:
        return ("steps", "spawn", "sleep", word, ";", "spawn", "sleep", word, ";", "echo", "ready", ";", "sleep", word)

    def leave_behind(self, word: str) -> Argv:
        return ("steps", "spawn", "sleep", word, ";", "echo", "done")

    def write(self, files: dict[str, str]) -> Argv:
        return ("steps", *(word for path, text in files.items() for word in ("write", path, text, ";")), "true")

    def write_odd_name(self) -> Argv:
        return ("write", os.fsdecode(ODD_NAME), "odd")

    def link(self, target: str, path: str) -> Argv:
        return ("link", target, path)

    def fifo(self, path: str) -> Argv:
        return ("fifo", path)

    def list(self, *directories: str) -> Argv:
        return ("ls", *directories)

    def read(self, path: str) -> Argv:
        return ("cat", path)

    def script(self, text: str) -> bytes:
        return f"#!\necho {text}\n".encode()

    def use_cpu(self) -> Argv:
        return ("spin",)

    def use_memory(self) -> Argv:
        return ("hog",)

    def use_processes(self) -> Argv:
        return ("forks",)

    def use_disk(self) -> Argv:
        return ("fill", "full")


class UnixPrograms:
    """In the words of a POSIX shell and coreutils, for every backend that has a kernel."""

    def exit(self, code: int) -> Argv:
        return _shell(f"exit {code}")

    def die_of(self, signal: str) -> Argv:
        return _shell(f"kill -{signal} $$; sleep 60")

    def echo(self, *words: str) -> Argv:
        return ("/usr/bin/printf", "%s" + " %s" * (len(words) - 1) + "\\n", *words)

    def say(self, out: str, err: str, code: int = 0) -> Argv:
        return _shell('printf "%s\\n" "$1"; printf "%s\\n" "$2" >&2; exit "$3"', out, err, str(code))

    def copy(self, *, to_stderr: bool = False) -> Argv:
        return _shell("exec cat >&2") if to_stderr else ("cat",)

    def count(self, number: int) -> Argv:
        return _shell('i=1; while [ "$i" -le "$1" ]; do echo "o$i"; echo "e$i" >&2; i=$((i + 1)); done', str(number))

    def environment(self) -> Argv:
        return ("/usr/bin/env", "-0")

    def directory(self) -> Argv:
        return ("/bin/pwd",)

    def sleep(self, word: str) -> Argv:
        return ("sleep", word)

    def zeros(self, number: int, code: int = 0) -> Argv:
        return _shell('head -c "$1" /dev/zero; exit "$2"', str(number), str(code))

    def flood(self) -> Argv:
        return ("yes",)

    def flood_both(self) -> Argv:
        return _shell("yes >&2 & exec yes")

    def tree(self, word: str) -> Argv:
        return _shell('trap "" TERM HUP INT; setsid sleep "$1" & sleep "$1" & echo ready; sleep "$1"', word)

    def leave_behind(self, word: str) -> Argv:
        return _shell('setsid sleep "$1" & echo done', word)

    def write(self, files: dict[str, str]) -> Argv:
        words = [word for pair in files.items() for word in pair]
        return _shell(
            'while [ $# -gt 0 ]; do mkdir -p "$(dirname "$1")" && printf %s "$2" >"$1" || exit 1; shift 2; done', *words
        )

    def write_odd_name(self) -> Argv:
        return _shell(r'printf odd >"$(printf "odd\377\nname")"')

    def link(self, target: str, path: str) -> Argv:
        return ("ln", "-s", target, path)

    def fifo(self, path: str) -> Argv:
        return ("mkfifo", path)

    def list(self, *directories: str) -> Argv:
        return _shell('for directory in "$@"; do ls -A "$directory"; done', *directories)

    def read(self, path: str) -> Argv:
        return ("cat", path)

    def script(self, text: str) -> bytes:
        return f"#!/bin/sh\necho {text}\n".encode()

    def use_cpu(self) -> Argv:
        return _shell("while :; do :; done")

    def use_memory(self) -> Argv:
        return ("tail", "/dev/zero")  # keeps the last line, which has no end

    def use_processes(self) -> Argv:
        return _shell('i=0; while [ "$i" -lt 500 ]; do sleep 60 & i=$((i + 1)); done')

    def use_disk(self) -> Argv:
        return ("dd", "if=/dev/zero", "of=full", "bs=64k", "status=none")


def _shell(script: str, *words: str) -> Argv:
    return ("/bin/sh", "-c", script, "sh", *words)
