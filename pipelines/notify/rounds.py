"""Rounds: look at the lake, hand what was seen to every channel, and wait for none of them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from pipelines.errors import UsageError
from pipelines.lake.lease import LeaseLost
from pipelines.notify.channel import Channel, Say
from pipelines.notify.look import Round, unreadable, unseen

_log = logging.getLogger("hwmark.notify")

FINISH_S = 10
"""Seconds for which a stopping notifier waits for messages that are being sent."""
ONCE_S = 120
"""Seconds for which a single round waits for its channels."""


class Worker(threading.Thread):
    """One channel on a thread of its own, which takes the latest round that it was given."""

    def __init__(self, channel: Channel, stop: threading.Event) -> None:
        super().__init__(name=f"notify {channel.name}", daemon=True)
        self.channel, self._stop_all = channel, stop
        self._changed = threading.Condition()
        self._next: Round | None = None
        self._busy, self._over = False, False
        self.complete = True
        self.lost: LeaseLost | None = None

    def give(self, seen: Round) -> None:
        """Queue a round, in place of one that was not begun."""
        with self._changed:
            self._next, self._busy = seen, True
            self._changed.notify_all()

    def wait(self, seconds: float) -> bool:
        """Whether the rounds given are done with, within so many seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._busy, seconds)

    def end(self) -> None:
        """Have the thread end after the rounds that it was given."""
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def run(self) -> None:
        while True:
            with self._changed:
                self._busy = self._next is not None
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._next is not None or self._over)
                seen, self._next = self._next, None
            if seen is None:
                return
            self._deliver(seen)

    def _deliver(self, seen: Round) -> None:
        try:
            self.complete = self.channel.deliver(seen)
        except LeaseLost as lost:
            self.lost, self.complete = lost, False
            self._stop_all.set()
        except Exception as error:  # the type alone: its text may have the channel's URL, which may be a secret
            self.complete = False
            _log.error("%s: %s while sending; trying again", self.channel.name, type(error).__name__)


@dataclass(frozen=True)
class Schedule:
    """The schedule of rounds: one every some seconds, or only one."""

    every_s: float
    once: bool
    clock: Callable[[], datetime]


def rounds(
    look: Callable[[datetime], Round], channels: Sequence[Channel], how: Schedule, stop: threading.Event, say: Say
) -> list[str]:
    """Rounds until `stop` is set; the channels that did not accept all of the last one. Raises LeaseLost.

    A single round raises what went wrong with the lake; otherwise that is said, and the next round tries again.
    """
    workers = [Worker(channel, stop) for channel in channels]
    for worker in workers:
        worker.start()
    try:
        return _rounds(look, workers, how, stop, say)
    finally:
        for worker in workers:
            worker.end()


def _rounds(
    look: Callable[[datetime], Round], workers: Sequence[Worker], how: Schedule, stop: threading.Event, say: Say
) -> list[str]:
    seen, asleep = None, ""
    while True:
        began, now = time.monotonic(), how.clock()
        seen, why = _fresh(look(now)) if how.once else _seen(look, seen, now)
        if why != asleep:
            say(f"watchdog withheld: {why}" if why else "watchdog sent: everything is judged and fresh")
        asleep = why
        if seen is not None:
            for worker in workers:
                worker.give(seen)
        if how.once or stop.wait(max(0.0, how.every_s - (time.monotonic() - began))):
            break
    done = {worker: worker.wait(ONCE_S if how.once else FINISH_S) for worker in workers}
    if lost := next((worker.lost for worker in workers if worker.lost), None):
        raise lost
    return [worker.channel.name for worker in workers if not (done[worker] and worker.complete)]


def _fresh(seen: Round) -> tuple[Round, str]:
    return seen, "; ".join(seen.wrong)


def _seen(look: Callable[[datetime], Round], before: Round | None, now: datetime) -> tuple[Round | None, str]:
    """A round and what keeps the watchdog from being sent, also where the lake cannot be read.

    None until it could be read once: what had ended by then has to be known, and is not sent. A wrong setting ends the
    first round only.
    """
    try:
        return _fresh(look(now))
    except Exception as error:
        if before is None and isinstance(error, UsageError):
            raise
        _log.debug("the lake could not be read", exc_info=True)
        why = unreadable(error)
        return (unseen(before, why, now) if before else None), why
