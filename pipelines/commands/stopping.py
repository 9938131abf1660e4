"""SIGTERM and Ctrl-C end what runs until it is asked to stop, with status 0."""

from __future__ import annotations

import signal
import threading


def until_stopped() -> threading.Event:
    """An event that SIGTERM and the first Ctrl-C set; a second Ctrl-C interrupts at once."""
    stop = threading.Event()

    def on_signal(number: int, _frame: object) -> None:
        stop.set()
        signal.signal(number, signal.default_int_handler)

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, on_signal)
    return stop
