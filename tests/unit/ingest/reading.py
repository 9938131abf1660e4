"""Readers of a series for tests, and what a restart leaves of one."""

from pathlib import Path

from generators.brokerlogs.discovery.log_series import Series
from generators.brokerlogs.tailing.read_position import ReadPosition
from generators.brokerlogs.tailing.reader import SeriesReader
from generators.brokerlogs.tailing.told_lines import Stretch, Told


def reader_of(folder: Path, live: str = "rep.log") -> SeriesReader:
    mine = Stretch()
    return SeriesReader(Series(folder, live), Told([mine]), mine)


def read_with_older(reader: SeriesReader, limit: int = 1 << 16) -> list[bytes]:
    """What the reader of a series and those of older lines in its files tell until they are at its end."""
    told: list[bytes] = [b""]
    while True:
        for k, one in enumerate([reader, *reader.older_readers]):
            told[k] += b"".join(iter(lambda one=one: one.read(limit), b""))
        for only in reader.older[len(reader.older_readers) :]:
            mine = Stretch()
            reader.told.stretches.append(mine)
            reader.older_readers.append(SeriesReader(reader.series, reader.told, mine, only=only))
            told.append(b"")
        if reader.at_end and all(one.at_end for one in reader.older_readers):
            return told


def restarted(reader: SeriesReader) -> SeriesReader:
    """A new reader from the position of this one."""
    position, stretches = reader.read_position, reader.told.stretches
    copies = [one.until(one.count) for one in stretches]
    stored = ReadPosition.from_json(position.as_json()) if position else None
    return SeriesReader(reader.series, Told(copies), copies[stretches.index(reader.mine)], stored)
