import asyncio
import os
import signal

import pytest

from executor.cli.interrupts import SIGNALS, interrupts


@pytest.mark.parametrize("number", SIGNALS)
async def test_each_signal_is_told_on_the_loop_and_is_as_before_afterwards(number):
    before, told = signal.getsignal(number), asyncio.Event()
    with interrupts(told.set):
        os.kill(os.getpid(), number)
        async with asyncio.timeout(10):
            await told.wait()
    assert signal.getsignal(number) in {before, signal.SIG_DFL, signal.default_int_handler}


def test_a_terminal_that_goes_away_is_among_them():
    assert set(SIGNALS) == {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


async def test_a_hangup_that_is_ignored_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        told = asyncio.Event()
        with interrupts(told.set):
            os.kill(os.getpid(), signal.SIGHUP)
            await asyncio.sleep(0)
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        assert not told.is_set()
    finally:
        signal.signal(signal.SIGHUP, before)
