import errno
import struct

import pytest

from executor.sandbox.native import seccomp

ROWS = seccomp.table()
ALLOWED = [name for row in ROWS["allow"] for name in row["names"].split()]
DENIED = [name for row in ROWS["deny"] for name in row["names"].split()]
CONDITIONAL = [row["name"] for row in ROWS["allow_if"]]


def test_each_call_stands_in_the_table_once():
    names = ALLOWED + DENIED + CONDITIONAL
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize("kind", ["allow", "deny", "allow_if", "refuse"])
def test_each_row_gives_its_reason(kind):
    assert all(len(row["reason"].split()) >= 2 for row in ROWS[kind])


def test_a_use_is_refused_only_of_a_call_that_is_allowed():
    assert {row["name"] for row in ROWS["refuse"]} <= set(ALLOWED)


def test_each_errno_of_the_table_exists():
    named = {row["errno"] for kind in ("deny", "refuse") for row in ROWS[kind] if "errno" in row}
    assert named <= set(errno.errorcode.values())


def test_the_masked_value_of_a_test_lies_within_its_mask():
    tests = [
        test
        for row in ROWS["refuse"]
        for test in (*row.get("any", ()), *(test for use in row.get("all", ()) for test in use))
    ]
    masked = [test for test in tests if test[1] == "masked"]
    assert masked
    assert all(value & ~mask == 0 for _, _, value, mask in masked)


def test_the_filter_compiles_to_whole_instructions_within_the_kernels_limit():
    program = seccomp.compile_filter()
    assert len(program) % 8 == 0
    assert 10 < len(program) // 8 < 4096
    first = struct.unpack("HBBI", program[:8])
    assert first == (0x20, 0, 0, 4), "the architecture is looked at first"


def test_of_two_joined_programs_the_second_judges_what_the_first_allows():
    allow, refuse = struct.pack("HBBI", 6, 0, 0, 0x7FFF0000), struct.pack("HBBI", 6, 0, 0, 0x00050001)
    by_number = struct.pack("HBBI", 0x20, 0, 0, 0) + struct.pack("HBBI", 0x15, 1, 0, 39) + refuse + allow
    assert seccomp.joined(by_number, refuse) == by_number[:-8] + struct.pack("HBBI", 5, 0, 0, 0) + refuse


def test_the_calls_that_make_a_sandbox_are_denied_inside_it():
    walls = {"mount", "umount2", "pivot_root", "unshare", "setns", "chroot", "ptrace", "bpf", "keyctl", "seccomp"}
    assert walls <= set(DENIED)
