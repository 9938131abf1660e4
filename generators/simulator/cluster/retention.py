"""Where a partition's log begins once retention by size has deleted whole segments of it."""

from __future__ import annotations

from typing import NamedTuple


class Retention(NamedTuple):
    """log.retention.bytes and log.segment.bytes, for records of one size each."""

    most_bytes: int
    segment_bytes: int
    record_bytes: int

    def start(self, start: int, leo: int, hw: int) -> int:
        """The log start after a check: the rule of SegmentedLog.retain, with segments of so many records each.

        A segment goes while without it `most_bytes` are left; none with an offset at or above the HW.
        """
        records = max(1, self.segment_bytes // self.record_bytes)
        end = (start // records + 1) * records
        while end <= min(hw, leo) and (leo - end) * self.record_bytes >= self.most_bytes:
            start, end = end, end + records
        return start
