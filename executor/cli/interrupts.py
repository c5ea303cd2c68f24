"""The signals that ask for an end as events, so that what runs is ended in order and still answers."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interrupts(on_signal: Callable[[], object]) -> Iterator[None]:
    """`on_signal` is called on the event loop for each one, while the block runs.

    A SIGHUP that is ignored stays so: that is how `nohup` starts a program.
    """
    loop = asyncio.get_running_loop()
    numbers = [n for n in SIGNALS if n != signal.SIGHUP or signal.getsignal(n) is not signal.SIG_IGN]
    for number in numbers:
        loop.add_signal_handler(number, on_signal)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
