"""SIGTERM and Ctrl-C ask the driver to end after the batch in flight; its child processes ignore both."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

ASK_TO_STOP = (signal.SIGTERM, signal.SIGINT)

_deaf = False


def ignore() -> None:
    """Ignore in this process and its children the signals that ask the driver to stop: the driver decides."""
    for number in ASK_TO_STOP:
        signal.signal(number, signal.SIG_IGN)


def _in_child() -> None:
    if _deaf:
        ignore()


os.register_at_fork(after_in_child=_in_child)


@contextmanager
def children_without_signals() -> Iterator[None]:
    """Let processes that are forked in the block ignore these signals, also after exec, as Spark's JVM.

    A terminal signals the whole process group, which would end the JVM in the middle of a batch.
    """
    global _deaf
    before, _deaf = _deaf, True
    try:
        yield
    finally:
        _deaf = before


@contextmanager
def stoppable(stop: threading.Event) -> Iterator[Callable[[], None]]:
    """Let the signals set `stop` in the block; a second Ctrl-C interrupts. Only the main thread can be signalled.

    Yields a function that installs the handlers again: pyspark replaces that of Ctrl-C.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return

    def on_signal(number: int, frame: object) -> None:
        if stop.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.set()

    def install() -> None:
        for number in ASK_TO_STOP:
            signal.signal(number, on_signal)

    before = {number: signal.getsignal(number) for number in ASK_TO_STOP}
    install()
    try:
        yield install
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
