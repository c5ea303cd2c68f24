"""SIGINT and SIGTERM as events, so that what runs is ended in order and still answers."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def interrupts(on_signal: Callable[[], None]) -> Iterator[None]:
    """`on_signal` is called on the event loop for each one, while the block runs."""
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, on_signal)
    try:
        yield
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
