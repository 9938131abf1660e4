"""What a running job keeps up by itself: dead files of the tables that it rewrites every few seconds."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from pipelines.lake.lake import Lake
from pipelines.streaming.dead_files import remove_replaced

log = logging.getLogger("hwmark.run")

EVERY_S = 300.0


class Upkeep:
    """Looks for dead files every five minutes; `retention_s`: seconds for which a file that was replaced is kept,
    `steady`: seconds of a monotonic clock."""

    def __init__(self, lake: Lake, retention_s: float, steady: Callable[[], float] = time.monotonic) -> None:
        self._lake, self._retention, self._steady = lake, timedelta(seconds=retention_s), steady
        self._last = steady()

    def when_due(self) -> None:
        """Removes them where the last look is as long ago."""
        if self._steady() - self._last >= EVERY_S:
            self.now()

    def now(self) -> None:
        """Removes them. What goes wrong is a warning: the job goes on, and the next look does the rest."""
        self._last = self._steady()
        try:
            removed = remove_replaced(self._lake, self._retention, datetime.now(UTC))
        except Exception as error:  # a disk, a store, a table: whatever it is, no batch depends on it
            log.warning("dead files of gold were not removed, tried again in five minutes: %s", error)
            return
        log.debug("%d dead files of gold removed", removed)
