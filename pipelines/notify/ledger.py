"""The messages that were sent to each channel: `ops/deliveries`, with the part in memory that is queried.

A message is recorded as `sending` before it goes out, and as `sent` or `failed` afterwards. A kill between the two
leaves a message that may or may not have gone out. It is sent once more, under the same key, because a double costs a
glance and a lost page costs data. As one channel sends one message at a time, a kill makes one double of each
channel at most. An Alertmanager knows an alert again by its labels, so there only what it accepted is recorded.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

import pyarrow as pa

from pipelines.lake.lease import LeaseLost
from schemas import deliveries

_log = logging.getLogger("hwmark.notify")


class Outcome(StrEnum):
    """The outcome of a delivery. `began` is a channel's first row: alerts that ended before it are not sent there."""

    BEGAN = "began"
    SENDING = "sending"
    FAILED = "failed"
    SENT = "sent"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Delivery:
    """One row of `ops/deliveries`; without `key` it is about the channel as a whole."""

    channel: str
    outcome: Outcome
    attempt: int
    sent_at: datetime
    alert_id: str | None = None
    episode: datetime | None = None
    rule: str | None = None
    state: str | None = None
    key: str | None = None
    error: str | None = None

    @property
    def done(self) -> bool:
        return self.outcome in (Outcome.SENT, Outcome.SKIPPED)


Write = Callable[[Sequence[Delivery]], None]


class Ledger:
    """The deliveries of a lake, for the one process that notifies; several threads may use it."""

    def __init__(self, past: Iterable[Delivery], write: Write) -> None:
        self._write, self._lock, self._writing = write, threading.Lock(), threading.Lock()
        self._last: dict[tuple[str, str | None], Delivery] = {}
        self._began: dict[str, str | None] = {}
        self._unsaved: list[Delivery] = []
        self._refused = False
        ranks = list(Outcome)
        for delivery in sorted(past, key=lambda d: (d.sent_at, ranks.index(d.outcome))):
            self._take(delivery)

    def began(self, channel: str, per: str | None = None) -> bool:
        """Whether the channel was last begun for alerts, or (`per` is INCIDENT) for incidents."""
        return self._began.get(channel, "never") == per

    def last(self, channel: str, key: str | None = None) -> Delivery | None:
        """The last delivery of a notification, or the last row on a channel as a whole."""
        with self._lock:
            return self._last.get((channel, key))

    def done(self, channel: str, key: str) -> bool:
        """Whether a notification was sent or skipped."""
        last = self.last(channel, key)
        return last is not None and last.done

    def sent(self, channel: str, key: str) -> Delivery | None:
        """The time when a notification was sent, None if it was not."""
        last = self.last(channel, key)
        return last if last is not None and last.outcome is Outcome.SENT else None

    def failing(self, channel: str) -> bool:
        """Whether the last attempt of a channel failed."""
        with self._lock:
            own = [d for (name, _), d in self._last.items() if name == channel and d.outcome is not Outcome.SKIPPED]
        return bool(own) and max(own, key=lambda d: d.sent_at).outcome is Outcome.FAILED

    @property
    def unsaved(self) -> bool:
        """Whether rows wait because the lake could not be written."""
        return self._refused

    def record(self, *rows: Delivery) -> None:
        """Write rows in one commit, with those that could not be written before. Raises LeaseLost.

        A lake that cannot be written delays no message; after a kill in that time, several messages are sent twice.
        """
        with self._lock:
            for row in rows:
                self._take(row)
            self._unsaved += rows
        with self._writing:
            with self._lock:
                batch = list(self._unsaved)
            try:
                if batch:  # else another thread's commit had these rows, too
                    self._write(batch)
                self._refused = False
            except LeaseLost:
                raise
            except Exception as error:
                self._refused = True
                _log.warning("ops/deliveries cannot be written, trying again: %s", error)
                return
            with self._lock:
                del self._unsaved[: len(batch)]

    def _take(self, delivery: Delivery) -> None:
        if delivery.outcome is Outcome.BEGAN:
            self._began[delivery.channel] = delivery.rule
            return
        before = self._last.get((delivery.channel, delivery.key))
        if delivery.key is None or before is None or not before.done:
            self._last[delivery.channel, delivery.key] = delivery


def to_arrow(rows: Iterable[Delivery]) -> pa.Table:
    """Rows in the schema of `ops/deliveries`."""
    return pa.Table.from_pylist([{**vars(row), "outcome": row.outcome.value} for row in rows], schema=deliveries.ARROW)


def from_arrow(rows: pa.Table) -> list[Delivery]:
    """The deliveries that the table holds, in no order."""
    found = rows.select(deliveries.ARROW.names).to_pylist()
    return [Delivery(**{**row, "outcome": Outcome(row["outcome"])}) for row in found]
