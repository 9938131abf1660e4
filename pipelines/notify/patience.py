"""An end to waiting for a receiver, whatever it does: one that drips its answer outlives the timeouts of a socket."""

from __future__ import annotations

import threading
from collections.abc import Callable

from pipelines.notify.http import NotAccepted

PATIENCE_S = 30


def within(seconds: float, act: Callable[[], None]) -> None:
    """Run `act` on a thread that ends with the process. Raises its error, or NotAccepted if it takes longer."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            act()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, name="notify sending", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise NotAccepted("no answer in time")
    if raised:
        raise raised[0]
