"""A series is read through rotation and truncation, from any place, each line once."""

import gzip
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from generators.brokerlogs.scanning.line_record import LONGEST
from generators.brokerlogs.tailing.read_position import PositionLost
from generators.brokerlogs.tailing.reader import SeriesReader
from tests.unit.ingest.reading import reader_of, restarted

OLD = b"".join(b"%d old line\n" % i for i in range(200))
NEW = b"".join(b"%d new line\n" % i for i in range(300))


def _rename(log: Path) -> None:
    log.rename(log.with_name("rep.log.1"))
    log.write_bytes(NEW)


def _copy_and_truncate(log: Path) -> None:
    shutil.copyfile(log, log.with_name("rep.log.1"))
    os.truncate(log, 0)
    with open(log, "ab") as file:
        file.write(NEW)


def _compress(log: Path) -> None:
    log.with_name("rep.log.1.gz").write_bytes(gzip.compress(log.read_bytes()))
    log.unlink()
    log.write_bytes(NEW)


def _twice(log: Path) -> None:
    log.rename(log.with_name("rep.log.2"))
    half = NEW.index(b"\n", 1000) + 1
    log.with_name("rep.log.1").write_bytes(NEW[:half])
    log.write_bytes(NEW[half:])
    os.utime(log.with_name("rep.log.2"), (1, 1))
    os.utime(log.with_name("rep.log.1"), (2, 2))


def _grow(log: Path) -> None:
    with open(log, "ab") as file:
        file.write(NEW)


CHANGES = [_rename, _copy_and_truncate, _compress, _twice, _grow]


def _rest(reader: SeriesReader, limit: int = 64) -> bytes:
    return b"".join(iter(lambda: reader.read(limit), b""))


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("restart", [False, True], ids=["running", "restarted"])
@pytest.mark.parametrize("before", [0, 1, 5, 10_000], ids=lambda n: f"after {n} reads")
@pytest.mark.sampled(3)
def test_each_line_is_read_once_through(
    tmp_path: Path, change: Callable[[Path], None], restart: bool, before: int
) -> None:
    log = tmp_path / "rep.log"
    log.write_bytes(OLD)
    reader = reader_of(tmp_path)
    read = b""
    for _ in range(before):
        read += reader.read(64)
    change(log)
    if restart:
        reader = restarted(reader)
    read += _rest(reader)
    assert read == OLD + NEW
    assert reader.at_end


def test_the_last_message_of_a_file_waits_for_no_second_read_of_it(tmp_path: Path) -> None:
    log = tmp_path / "rep.log"
    log.with_name("rep.log.1").write_bytes(OLD)
    log.write_bytes(NEW)
    reader = reader_of(tmp_path)
    assert [reader.read(1 << 20) for _ in range(3)] == [OLD, NEW, b""]


def test_lines_written_to_the_old_file_after_it_was_renamed_are_read(tmp_path: Path) -> None:
    log = tmp_path / "rep.log"
    log.write_bytes(OLD)
    reader = reader_of(tmp_path)
    read = _rest(reader)
    log.rename(tmp_path / "rep.log.1")
    with open(tmp_path / "rep.log.1", "ab") as file:
        file.write(b"a late line\n")
    log.write_bytes(NEW)
    assert read + _rest(reader) == OLD + b"a late line\n" + NEW


def test_a_torn_line_waits_for_its_end_and_ends_with_its_file(tmp_path: Path) -> None:
    log = tmp_path / "rep.log"
    log.write_bytes(b"1 whole\n2 to")
    reader = reader_of(tmp_path)
    assert _rest(reader) == b"1 whole\n"
    assert reader.torn == 4
    with open(log, "ab") as file:
        file.write(b"rn\n3 cut o")
    assert _rest(reader) == b"2 torn\n"
    log.rename(tmp_path / "rep.log.1")
    log.write_bytes(b"4 next\n")
    assert _rest(reader) == b"3 cut o\n4 next\n"


def test_a_line_of_no_end_is_given_in_parts_and_ends_with_its_file(tmp_path: Path) -> None:
    log, limit = tmp_path / "rep.log", LONGEST + 1
    log.write_bytes(b"1 whole\n" + b"\0" * 2 * limit)
    reader = reader_of(tmp_path)
    read = _rest(reader, limit)
    assert reader.torn == 2 * limit
    log.rename(tmp_path / "rep.log.1")
    log.write_bytes(b"2 next\n")
    assert read + _rest(reader, limit) == b"1 whole\n" + b"\0" * 2 * limit + b"\n2 next\n"


@pytest.mark.parametrize("restart", [False, True])
def test_another_log_in_its_place_is_noticed(tmp_path: Path, restart: bool) -> None:
    log = tmp_path / "rep.log"
    log.write_bytes(OLD)
    reader = reader_of(tmp_path)
    _rest(reader)
    log.write_bytes(NEW)
    if restart:
        reader = restarted(reader)
    with pytest.raises(PositionLost):
        reader.read(64)


OTHERS = {"shorter": NEW[: NEW.index(b"\n", 1000) + 1], "of equal length": NEW[: len(OLD)], "longer": NEW}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS.keys())
@pytest.mark.parametrize("restart", [False, True], ids=["running", "restarted"])
def test_another_log_with_the_same_inode_is_another_log(tmp_path: Path, other: bytes, restart: bool) -> None:
    log = tmp_path / "rep.log"
    log.write_bytes(OLD)
    reader, inode = reader_of(tmp_path), log.stat().st_ino
    assert _rest(reader) == OLD
    with open(log, "r+b") as file:
        file.truncate()
        file.write(other)
    assert log.stat().st_ino == inode
    if restart:
        reader = restarted(reader)
    with pytest.raises(PositionLost):
        reader.read(64)
    reader.forget_end()
    assert _rest(reader) == other


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS.keys())
def test_an_inode_that_is_used_again_does_not_identify_its_file(tmp_path: Path, other: bytes) -> None:
    """A rotated file is deleted, and the next one made gets its number; a reader that holds it open prevents that."""
    log = tmp_path / "rep.log"
    log.write_bytes(OLD)
    reader = reader_of(tmp_path)
    assert _rest(reader) == OLD
    again, inode = restarted(reader), log.stat().st_ino
    log.unlink()
    log.write_bytes(b"x")
    assert log.stat().st_ino != inode
    del reader
    for attempt in range(200):
        log.unlink()
        (tmp_path / f"other-{attempt}").touch()
        log.write_bytes(other)
        if log.stat().st_ino == inode:
            break
        (tmp_path / f"other-{attempt}").unlink()
    with pytest.raises(PositionLost):
        again.read(64)


def test_files_finished_before_the_place_was_lost_are_not_read_again(tmp_path: Path) -> None:
    (tmp_path / "rep.log.1").write_bytes(OLD)
    log = tmp_path / "rep.log"
    log.write_bytes(NEW)
    reader = reader_of(tmp_path)
    _rest(reader)
    log.write_bytes(b"something else\n")
    reader.forget_end()
    assert _rest(reader) == b"something else\n"


def test_a_line_without_an_end_does_not_fill_the_memory(tmp_path: Path) -> None:
    (tmp_path / "rep.log").write_bytes(b"x" * (3 << 20) + b"\nlast\n")
    reader = reader_of(tmp_path)
    assert len(reader.read(1 << 20)) >= 1 << 20
    assert _rest(reader).endswith(b"last\n")
