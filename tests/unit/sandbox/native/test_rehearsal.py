"""Which pages are copied ahead, of those that a trial told."""

import ctypes
import itertools
import mmap
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor.sandbox.native import rehearsal

PAGE = mmap.PAGESIZE
PAGES = st.lists(st.integers(0, 200))


def pages_of(ranges: rehearsal.Ranges) -> list[int]:
    return [page for address, length in ranges for page in range(address // PAGE, (address + length) // PAGE)]


@given(pages=PAGES)
def test_pages_are_joined_into_ranges_that_hold_each_of_them_once(pages: list[int]):
    assert pages_of(tuple(rehearsal._joined(set(pages)))) == sorted(set(pages))


@given(pages=PAGES)
def test_no_two_ranges_touch(pages: list[int]):
    ranges = list(rehearsal._joined(set(pages)))
    assert all(start + length < following for (start, length), (following, _) in itertools.pairwise(ranges))


def test_no_pages_are_no_ranges():
    assert list(rehearsal._joined([])) == []


def test_neighbours_are_one_range_in_any_order():
    assert list(rehearsal._joined([7, 3, 5, 4])) == [(3 * PAGE, 3 * PAGE), (7 * PAGE, PAGE)]


def test_what_was_written_up_to_the_end_of_the_process_is_chosen_where_it_is_little():
    assert rehearsal._chosen([1, 2, rehearsal._END, 2, 9, rehearsal._END]) == ((PAGE, 2 * PAGE), (9 * PAGE, PAGE))


def test_of_much_only_what_the_program_wrote_is_chosen():
    many = [*range(100, 100 + rehearsal.MOST_BYTES // PAGE)]
    assert rehearsal._chosen([1, rehearsal._END, *many, rehearsal._END]) == ((PAGE, PAGE),)


def test_a_trial_that_ended_early_is_believed_as_far_as_it_came():
    assert rehearsal._chosen([4, 5]) == ((4 * PAGE, 2 * PAGE),)
    assert rehearsal._chosen([]) == ()


def test_populated_pages_keep_what_they_hold():
    with mmap.mmap(-1, 3 * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory[PAGE : PAGE + 5] = b"whole"
        address = _address_of(memory)
        rehearsal.populate(((address, 3 * PAGE),))
        assert memory[PAGE : PAGE + 5] == b"whole"
        assert memory[2 * PAGE] == 0


def test_a_range_that_is_not_there_is_passed_over():
    rehearsal.populate(((0, PAGE),))


def test_mappings_that_the_process_may_write_to_and_shares_with_nobody_are_found():
    with (
        mmap.mmap(-1, PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as own,
        mmap.mmap(-1, PAGE, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS) as shared,
        mmap.mmap(-1, PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ) as read_only,
    ):
        found = rehearsal._writable()

        def is_found(memory: mmap.mmap) -> bool:
            page = _address_of(memory) // PAGE
            return any(start <= page < end for start, end in found)

        assert (is_found(own), is_found(shared), is_found(read_only)) == (True, False, False)


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")  # the child does nothing but tell
def test_what_a_fork_wrote_to_is_told_and_ends_with_a_mark():
    with mmap.mmap(-1, 4 * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory[:] = bytes(4 * PAGE)
        first = _address_of(memory) // PAGE
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            memory[2 * PAGE] = 1
            rehearsal._tell(write)
            os._exit(0)
        os.close(write)
        told = rehearsal._hear(read)
        os.waitpid(pid, 0)
    assert told[-1] == rehearsal._END
    assert first + 2 in told
    assert first not in told


class _Buffer(ctypes.Structure):
    """The beginning of CPython's Py_buffer."""

    _fields_ = (("address", ctypes.c_void_p), ("rest", ctypes.c_byte * 256))


def _address_of(memory: mmap.mmap) -> int:
    """Also of one that may not be written to."""
    buffer = _Buffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(memory), ctypes.byref(buffer), 0)
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(buffer))
    return int(buffer.address)
