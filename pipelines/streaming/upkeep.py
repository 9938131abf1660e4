"""Upkeep by a running job beside its batches: dead files of tables that it rewrites, and the timeline."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from pipelines.lake.lake import Lake
from pipelines.streaming.dead_files import remove_replaced

log = logging.getLogger("hwmark.run")

EVERY_S, LINES_EVERY_S = 300.0, 60.0
SHARE = 100
"""The timeline is written again no sooner than after so many times what it took: 1 % of one core at most."""


class Upkeep:
    """Looks for dead files every five minutes, and writes the timeline every minute.

    `retention_s`: seconds for which a file that was replaced is kept, `steady`: seconds of a monotonic clock,
    `write_timeline`: see `pipelines.timeline.writing`, which this package may not import.
    """

    def __init__(
        self,
        lake: Lake,
        retention_s: float,
        steady: Callable[[], float] = time.monotonic,
        write_timeline: Callable[[Lake], None] | None = None,
    ) -> None:
        self._lake, self._retention, self._steady = lake, timedelta(seconds=retention_s), steady
        self._write_timeline = write_timeline
        self._last = steady()
        self._lines_due = self._last + LINES_EVERY_S

    def when_due(self) -> None:
        """Does what is due."""
        if self._write_timeline and self._steady() >= self._lines_due:
            self._write_lines()
        if self._steady() - self._last >= EVERY_S:
            self._remove()

    def now(self) -> None:
        """Does all of it. What goes wrong is a warning: the job goes on, and the next time does the rest."""
        self._write_lines()
        self._remove()

    def _write_lines(self) -> None:
        if self._write_timeline is None:
            return
        begun = self._steady()
        try:
            self._write_timeline(self._lake)
        except Exception as error:  # as below
            log.warning("gold/timeline was not written, tried again in a minute: %s", error)
        ended = self._steady()
        self._lines_due = ended + max(LINES_EVERY_S, SHARE * (ended - begun))
        log.debug("gold/timeline written in %.2f s", ended - begun)

    def _remove(self) -> None:
        self._last = self._steady()
        try:
            removed = remove_replaced(self._lake, self._retention, datetime.now(UTC))
        except Exception as error:  # a disk, a store, a table: whatever it is, no batch depends on it
            log.warning("dead files of gold were not removed, tried again in five minutes: %s", error)
            return
        log.debug("%d dead files of gold removed", removed)
