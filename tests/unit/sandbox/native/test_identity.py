import pytest

from executor.sandbox.native.identity import IdPool


def test_host_ids_are_given_out_once_and_never_zero():
    pool = IdPool(1_000_000, 3)
    taken = [pool.take() for _ in range(3)]
    assert sorted(taken) == [1_000_000, 1_000_001, 1_000_002]
    with pytest.raises(OSError, match="no free host id"):
        pool.take()
    pool.give_back(taken[1])
    assert pool.take() == taken[1]


def test_of_the_ids_that_were_given_back_the_one_that_is_free_the_longest_is_used_first():
    pool = IdPool(10, 3)
    first, second = pool.take(), pool.take()
    pool.give_back(second)
    pool.give_back(first)
    assert [pool.take(), pool.take(), pool.take()] == [second, first, 12]


def test_an_id_that_was_given_back_serves_before_a_fresh_one():
    pool = IdPool(10, 65_536)
    pool.give_back(pool.take())
    assert pool.take() == 10
