"""Readers of a series for tests, and what a restart leaves of one."""

from pathlib import Path

from generators.brokerlogs.discovery.log_series import Series
from generators.brokerlogs.tailing.read_position import ReadPosition
from generators.brokerlogs.tailing.reader import SeriesReader
from generators.brokerlogs.tailing.told_lines import Stretch, Told


def reader_of(folder: Path, live: str = "rep.log") -> SeriesReader:
    mine = Stretch()
    return SeriesReader(Series(folder, live), Told([mine]), mine)


def restarted(reader: SeriesReader) -> SeriesReader:
    """A new reader from the position of this one."""
    position, stretches = reader.read_position, reader.told.stretches
    copies = [one.until(one.count) for one in stretches]
    stored = ReadPosition.from_json(position.as_json()) if position else None
    return SeriesReader(reader.series, Told(copies), copies[stretches.index(reader.mine)], stored)
