"""The lines of one source out of its bytes: names to numbers, local times to UTC."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np

from generators.brokerlogs.events.source_state import PartitionStates
from generators.brokerlogs.scanning.interning import number_names
from generators.brokerlogs.scanning.line_record import LINE, NUMBERS, THREADS
from generators.brokerlogs.scanning.scan import Names, scan
from pipelines.replication.compiled.hash_index import Keys


class Scanner:
    """Finds the lines of one source, and the partitions that they name."""

    def __init__(self, partitions: PartitionStates, timezone: str) -> None:
        self.loggers: list[str] = []
        """Names of the loggers of the lines found last."""
        self.patterns: list[tuple[int, int]] = []
        """(time in ms, grade) of the first line of each pattern (see `chosen_files`)."""
        self._partitions, self.zone = partitions, ZoneInfo(timezone)
        self._places = Keys()

    def lines(self, data: bytes, buf: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """The lines of `data` that end at `ends`, as records of LINE; `buf` are the same bytes as an array."""
        lines = np.empty(len(ends), LINE)
        classes, new_places = np.zeros((len(ends), 3), np.int64), np.zeros((len(ends), 2), np.int64)
        number_names(self._partitions.names[self._places.count :], self._places)
        known, indexes, done = self._places.count, (Keys(), Keys(), self._places), 0
        while True:
            counts = np.array([index.count for index in indexes], np.int64)
            threads, loggers, places = (index.table[:3] for index in indexes)
            names = Names(threads, loggers, places, counts, classes, new_places)
            done = scan(buf, ends, lines, names, done, known)
            for index, count in zip(indexes, counts.tolist(), strict=True):
                index.count = count
            if done == len(ends):
                break
            for index in indexes:
                if index.is_full:
                    index.widen()
        self._partitions.add_names([data[start:end] for start, end in new_places[: self._places.count - known]])
        self.loggers = [data[start:end].decode("utf-8", "replace") for _, start, end in classes[: indexes[1].count]]
        self._to_utc(lines)
        self._find_patterns(lines)
        return lines

    def _find_patterns(self, lines: np.ndarray) -> None:
        for name, grade in (("thread", THREADS), ("number", NUMBERS)):
            if all(known != grade for _, known in self.patterns):
                with_it = np.flatnonzero(lines[name] >= 0)
                self.patterns += [(int(lines["ts"][with_it[0]]), grade)] if len(with_it) else []

    def _to_utc(self, lines: np.ndarray) -> None:
        """Times of the stock pattern are local: subtract the zone's offset at their quarter of an hour."""
        local = lines["stock"] == 1
        if self.zone.key == "UTC" or not local.any():
            return
        quarters, which = np.unique(lines["ts"][local] // 900_000, return_inverse=True)
        lines["ts"][local] -= np.array([self._offset_ms(int(quarter)) for quarter in quarters])[which]

    def _offset_ms(self, quarter: int) -> int:
        there = datetime.fromtimestamp(quarter * 900, UTC).replace(tzinfo=self.zone)
        shift = there.utcoffset()
        return int(shift.total_seconds() * 1000) if shift else 0
