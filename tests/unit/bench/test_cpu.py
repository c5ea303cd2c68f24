import os

from executor.bench.cpu import Process, Reading, descendants, parse, read

TICK = 1 / os.sysconf("SC_CLK_TCK")


def test_a_name_with_blanks_and_brackets_does_not_shift_the_fields():
    line = "41 (a) b (c)) S 7 41 41 0 -1 4194560 100 200 0 0 3 4 5 6 20 0 1 0 12345 0 0"
    assert parse(line) == Process(parent=7, seconds=(3 + 4 + 5 + 6) * TICK)


def test_descendants_are_found_at_any_depth_and_nobody_else():
    table = {pid: Process(parent=parent, seconds=0) for pid, parent in ((1, 0), (10, 1), (11, 10), (12, 11), (20, 1))}
    assert descendants(table, [10]) == {10, 11, 12}


def test_a_root_that_has_ended_is_left_out():
    assert descendants({1: Process(parent=0, seconds=0)}, [99]) == frozenset()


def test_readings_are_subtracted_part_by_part():
    assert Reading(5.0, 3.0) - Reading(1.0, 2.0) == Reading(4.0, 1.0)


def test_work_of_this_process_is_read():
    before = read()
    total = sum(number * number for number in range(300_000))
    spent = read() - before
    assert total > 0
    assert spent.processes > 0
