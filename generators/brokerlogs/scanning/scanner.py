"""Bytes of one source to lines: names to numbers, local times to UTC."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np

from generators.brokerlogs.events.source_state import Known
from generators.brokerlogs.scanning.interning import fill, hashes, table
from generators.brokerlogs.scanning.line_record import LINE, NUMBERS, THREADS
from generators.brokerlogs.scanning.scan import scan


class Scanner:
    """Finds the lines of one source, and the partitions that they name."""

    def __init__(self, known: Known, timezone: str) -> None:
        self.loggers: list[str] = []
        """Names of the loggers of the lines found last."""
        self.patterns: list[tuple[int, int]] = []
        """(time in ms, grade) of each pattern (see `voices`), from when on lines have had it."""
        self._known, self._zone = known, ZoneInfo(timezone)

    def lines(self, data: bytes, buf: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """The lines of `data` that end at `ends`."""
        count, names = len(ends), self._known.names
        lines = np.empty(count, LINE)
        threads, loggers, places = table(count), table(count), table(count + len(names))
        offsets = np.cumsum([0, *map(len, names)])
        fill(*places, hashes(np.frombuffer(b"".join(names), np.uint8), offsets))
        classes, new = np.zeros((count, 3), np.int64), np.zeros((count, 2), np.int64)
        named, known = scan(buf, ends, lines, threads, loggers, classes, places, len(names), new)
        self._known.add([data[a:b] for a, b in new[: known - len(names)]])
        self.loggers = [data[a:b].decode("utf-8", "replace") for _, a, b in classes[:named]]
        self._to_utc(lines)
        self._note_patterns(lines)
        return lines

    def _note_patterns(self, lines: np.ndarray) -> None:
        for name, grade in (("thread", THREADS), ("number", NUMBERS)):
            if all(known != grade for _, known in self.patterns):
                with_it = np.flatnonzero(lines[name] >= 0)
                self.patterns += [(int(lines["ts"][with_it[0]]), grade)] if len(with_it) else []

    def _to_utc(self, lines: np.ndarray) -> None:
        """Stock times are local: shift them by the zone's offset of their quarter of an hour."""
        local = lines["stock"] == 1
        if self._zone.key == "UTC" or not local.any():
            return
        quarters, which = np.unique(lines["ts"][local] // 900_000, return_inverse=True)
        lines["ts"][local] -= np.array([self._offset(int(quarter)) for quarter in quarters])[which]

    def _offset(self, quarter: int) -> int:
        there = datetime.fromtimestamp(quarter * 900, UTC).replace(tzinfo=self._zone)
        shift = there.utcoffset()
        return int(shift.total_seconds() * 1000) if shift else 0
