"""Files that change between two looks at them, or within one tick of the clock: each line is told once, or said to be
missing."""

from __future__ import annotations

import gzip
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from generators.brokerlogs.discovery import log_file
from generators.brokerlogs.tailing.read_position import PositionLost
from generators.brokerlogs.tailing.reader import SeriesReader
from generators.brokerlogs.tailing.told_lines import Stretch
from tests.unit.ingest.reading import reader_of, restarted
from tests.unit.ingest.test_every_line_once import A, B, C, rest, rotate, stock

D = stock("3:00", 50, "D")


def tell(reader: SeriesReader) -> list[bytes]:
    """The lines that the reader of a log and those of older lines tell, sorted."""
    read = b""
    while not (reader.at_end and all(one.at_end for one in reader.older_readers)):
        for one in [reader, *reader.older_readers]:
            try:
                read += rest(one)
            except PositionLost:
                one.forget_end()
        for only in reader.older[len(reader.older_readers) :]:
            mine = Stretch()
            reader.told.stretches.append(mine)
            reader.older_readers.append(SeriesReader(reader.series, reader.told, mine, only=only))
    return sorted(read.splitlines())


def lines(*contents: bytes) -> list[bytes]:
    return sorted(b"".join(contents).splitlines())


def rotate_and_write(live: Path) -> None:
    """Rotate the log, and write more than it had."""
    with live.open("ab") as file:
        file.write(B)
    rotate(live)
    live.write_bytes(C + D)


def copy_and_overwrite(live: Path) -> None:
    """Copy the log, truncate it, and write more than it had."""
    with live.open("ab") as file:
        file.write(B)
    shutil.copy(live, live.with_name("rep.log.1"))
    with live.open("r+b") as file:
        file.truncate()
        file.write(C + D)


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("change", [rotate_and_write, copy_and_overwrite], ids=lambda change: change.__name__)
@pytest.mark.parametrize("at", range(6))
def test_a_log_that_is_another_file_once_it_is_opened(
    at: int, change: Callable[[Path], None], restart: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was read from the byte at which the log of before ended: what comes before that was never told."""
    live, opened, real = tmp_path / "rep.log", [0], os.open
    live.write_bytes(A)
    reader = reader_of(tmp_path)
    assert rest(reader) == A
    reader.close()
    reader = restarted(reader) if restart else reader

    def open_late(path: Path, flags: int) -> int:
        if opened[0] == at:
            opened[0] += 1
            change(live)
        opened[0] += 1
        return real(path, flags)

    monkeypatch.setattr(log_file.os, "open", open_late)
    read = tell(reader)
    if opened[0] <= at:
        change(live)
    reader.at_end = False
    assert sorted(read + tell(reader)) == lines(B, C, D)


@pytest.mark.parametrize("restart", [False, True])
def test_a_part_of_a_line_that_is_overwritten_is_no_beginning_of_others(restart: bool, tmp_path: Path) -> None:
    live = tmp_path / "rep.log"
    live.write_bytes(A[:30])
    reader = reader_of(tmp_path)
    assert rest(reader) == b""
    with live.open("r+b") as file:
        file.truncate()
        file.write(B)
    assert rest(restarted(reader) if restart else reader) == B


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("pack", [bytes, lambda content: gzip.compress(content, 0)], ids=["plain", "gzip"])
@pytest.mark.parametrize("name", ["rep.log", "rep.log.1"])
def test_other_lines_of_equal_size_and_time_are_others(
    name: str, pack: Callable[[bytes], bytes], restart: bool, tmp_path: Path
) -> None:
    path, other = tmp_path / name, C.replace(b"C", b"X")
    assert len(pack(other)) == len(pack(C))
    (tmp_path / "rep.log.2").write_bytes(A)
    (tmp_path / "rep.log").write_bytes(B)
    path.write_bytes(pack(C))
    reader = reader_of(tmp_path)
    stat = path.stat()
    read = rest(reader)
    with path.open("r+b") as file:
        file.write(pack(other))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert read.count(b" C ") == 40
    reader.at_end = False
    assert tell(restarted(reader) if restart else reader) == lines(other)


@pytest.mark.parametrize("at", range(12))
def test_what_is_written_to_a_rotated_file_as_its_end_is_seen_is_told(
    at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that grew between the last read and the look at its size was taken for read whole."""
    old, seen, real = tmp_path / "rep.log.1", [0], os.fstat
    (tmp_path / "rep.log").write_bytes(C)
    reader = reader_of(tmp_path)
    assert rest(reader) == C
    old.write_bytes(A)

    def stat_late(descriptor: int) -> os.stat_result:
        if real(descriptor).st_ino == old.stat().st_ino:
            seen[0] += 1
            if seen[0] == at + 1:
                with old.open("ab") as file:
                    file.write(B)
        return real(descriptor)

    monkeypatch.setattr(log_file.os, "fstat", stat_late)
    reader.at_end = False
    read = tell(reader)
    reader.at_end = False
    assert sorted(read + tell(reader)) == lines(old.read_bytes())
