import fcntl
import os
import threading
import time

import pytest

from executor.telemetry.lines import OVERHEAD_BYTES, Lines

PATIENCE_SECONDS = 30.0


class Pipe:
    """A pipe of one page, and whoever writes lines to it."""

    def __init__(self, **options):
        self.reading, self.writing = os.pipe()
        fcntl.fcntl(self.writing, fcntl.F_SETPIPE_SZ, 4096)
        self.lines = Lines(self.writing, lambda count: f"{count} left out\n", **options)
        self._reader = None
        self._got = b""

    def start_reading(self):
        def read():
            while data := os.read(self.reading, 65536):
                self._got += data

        self._reader = threading.Thread(target=read)
        self._reader.start()

    def end(self):
        """All that came through."""
        if self._reader is None:
            self.start_reading()
        self.lines.close(PATIENCE_SECONDS)
        os.close(self.writing)
        self._reader.join(PATIENCE_SECONDS)
        os.close(self.reading)
        return self._got.decode().splitlines()


def test_lines_arrive_in_order_and_whole():
    pipe = Pipe()
    expected = [f"{number} {'x' * (number % 50)}" for number in range(2000)]
    pipe.start_reading()
    for line in expected:
        pipe.lines.write(line + "\n")
    assert pipe.end() == expected


def test_several_threads_do_not_mix_their_lines():
    pipe = Pipe()
    pipe.start_reading()
    writers = [
        threading.Thread(target=lambda letter=letter: [pipe.lines.write(letter * 300 + "\n") for _ in range(200)])
        for letter in "abcd"
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert sorted(pipe.end()) == sorted(letter * 300 for letter in "abcd" for _ in range(200))


def test_a_full_pipe_holds_nobody_up_and_what_is_left_out_is_counted_in_its_place():
    pipe = Pipe(capacity_bytes=100 * (10 + OVERHEAD_BYTES))
    began = time.monotonic()
    for number in range(50_000):
        pipe.lines.write(f"{number:09}\n")
    assert time.monotonic() - began < 10
    got = pipe.end()
    number = 0
    for line in got:
        count, _, left_out = line.partition(" ")
        assert left_out or int(line) == number
        number += int(count) if left_out else 1
    assert number == 50_000
    assert len(got) < 5_000


def test_lines_after_a_gap_stand_after_its_count():
    pipe = Pipe(capacity_bytes=10_000)
    pipe.lines.write("x" * 9_000 + "\n")
    pipe.lines.write("y" * 20_000 + "\n")
    pipe.lines.write("z" * 20_000 + "\n")
    pipe.lines.write("end\n")
    assert [line[:10] for line in pipe.end()] == ["x" * 10, "2 left out", "end"]


def test_the_end_waits_no_longer_than_it_is_told_for_a_reader_who_does_not_read():
    pipe = Pipe()
    pipe.lines.write("x" * 50_000 + "\n")
    began = time.monotonic()
    pipe.lines.close(0.05)
    assert 0.04 < time.monotonic() - began < 10
    pipe.lines.write("after the end\n")
    assert pipe.end() == ["x" * 50_000]


def test_the_end_writes_what_is_still_here_and_may_come_twice():
    pipe = Pipe()
    pipe.start_reading()
    for _ in range(100):
        pipe.lines.write("x" * 1000 + "\n")
    pipe.lines.close(PATIENCE_SECONDS)
    assert len(pipe.end()) == 100


def test_a_descriptor_that_was_made_non_blocking_loses_nothing():
    pipe = Pipe()
    os.set_blocking(pipe.writing, False)
    for number in range(100):
        pipe.lines.write(f"{number:0999}\n")
    assert [int(line) for line in pipe.end()] == list(range(100))


def test_a_reader_who_is_gone_is_no_error():
    pipe = Pipe()
    os.close(pipe.reading)
    for _ in range(100):
        pipe.lines.write("x\n")
    pipe.lines.close(PATIENCE_SECONDS)
    assert pipe.lines._held_bytes == 0
    os.close(pipe.writing)


@pytest.mark.parametrize("text", ["\udcff\n", "é\u2028\n"])
def test_any_text_is_written(text):
    pipe = Pipe()
    pipe.lines.write(text)
    assert len("".join(pipe.end())) >= 1
