"""Each line of a log is read once, whatever people and clocks do to its files; what cannot be read is told."""

import errno
import gzip
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from generators.brokerlogs.discovery import log_file
from generators.brokerlogs.discovery.file_order import oldest_first, rotated_name
from generators.brokerlogs.discovery.heads import SNIFF
from generators.brokerlogs.discovery.log_file import LogBytes
from generators.brokerlogs.discovery.log_series import Series
from generators.brokerlogs.tailing.failures import Failures
from generators.brokerlogs.tailing.line_digests import line_digests
from generators.brokerlogs.tailing.read_position import PositionLost
from generators.brokerlogs.tailing.reader import SeriesReader
from generators.brokerlogs.tailing.told_lines import Stretch, Told
from tests.unit.ingest.reading import read_with_older, reader_of, restarted


def stock(at: str, count: int, tag: str) -> bytes:
    """Lines of the stock pattern from this local time on, a second apart."""
    hour, minute = map(int, at.split(":"))
    return b"".join(
        b"[2026-10-25 %02d:%02d:%02d,%03d] INFO %s %d (kafka.cluster.Partition)\n"
        % (hour, minute, k % 60, k // 60, tag.encode(), k)
        for k in range(count)
    )


def rest(reader: SeriesReader) -> bytes:
    return b"".join(iter(lambda: reader.read(1 << 16), b""))


def rotate(live: Path) -> None:
    for k in (3, 2, 1):
        path = live.with_name(f"{live.name}.{k}")
        if path.exists():
            path.rename(live.with_name(f"{live.name}.{k + 1}"))
    live.rename(live.with_name(f"{live.name}.1"))


A, B, C = stock("2:50", 40, "A"), stock("2:10", 40, "B"), stock("2:40", 40, "C")
"""Written one after the other: the hour comes twice."""


@pytest.mark.parametrize("restart", [False, True])
def test_the_hour_that_comes_twice_is_read_once(tmp_path: Path, restart: bool) -> None:
    live = tmp_path / "rep.log"
    live.write_bytes(A)
    reader = reader_of(tmp_path)
    read = rest(reader)
    for content in (B, C):
        rotate(live)
        live.write_bytes(content)
        reader = restarted(reader) if restart else reader
        read += rest(reader)
    assert read == A + B + C


@pytest.mark.parametrize("restart", [False, True])
def test_files_rotated_twice_between_two_polls_are_read_though_their_times_fall(tmp_path: Path, restart: bool) -> None:
    live = tmp_path / "rep.log"
    live.write_bytes(A)
    reader = reader_of(tmp_path)
    read = rest(reader)
    for content in (B, C):
        rotate(live)
        live.write_bytes(content)
    assert read + rest(restarted(reader) if restart else reader) == A + B + C


@pytest.mark.parametrize("limit", [50, 70, 200, 1 << 16])
def test_known_lines_are_known_wherever_a_piece_of_their_copy_ends(tmp_path: Path, limit: int) -> None:
    live = tmp_path / "rep.log"
    live.write_bytes(A + B)
    reader = reader_of(tmp_path)
    assert rest(reader) == A + B
    (tmp_path / "rep.log.7").write_bytes(A[A.index(b"A 20") - 100 :] + B[: B.index(b"B 20")])
    reader = restarted(reader)
    assert b"".join(iter(lambda: reader.read(limit), b"")) == b""
    assert len(reader.older) == 1, "the cut line with which the copy begins"


@pytest.mark.parametrize("limit", [50, 200, 1 << 16])
def test_unknown_lines_in_a_row_are_one_older_part_of_their_file(tmp_path: Path, limit: int) -> None:
    live = tmp_path / "rep.log"
    live.write_bytes(B + C)
    reader = reader_of(tmp_path)
    assert rest(reader) == B + C
    (tmp_path / "rep.log.1").write_bytes(A + B)
    reader = restarted(reader)
    assert b"".join(iter(lambda: reader.read(limit), b"")) == b""
    assert [one.begin for (one,) in reader.older] == [0]


@pytest.mark.parametrize("limit", [50, 200, 1 << 16])
def test_older_lines_that_continue_those_of_another_file_are_told(tmp_path: Path, limit: int) -> None:
    live = tmp_path / "rep.log"
    live.write_bytes(C)
    reader = reader_of(tmp_path)
    assert rest(reader) == C
    for k in (7, 8, 9):
        (tmp_path / f"rep.log.{k}").write_bytes(A)
    (tmp_path / "rep.log.1").write_bytes(A + B)
    reader = restarted(reader)
    assert read_with_older(reader, limit) == [b"", A, B]
    assert read_with_older(restarted(reader), limit) == [b"", b"", b""]


def test_a_line_that_an_older_source_begins_with_is_known_in_other_copies(tmp_path: Path) -> None:
    live = tmp_path / "rep.log"
    live.write_bytes(C)
    reader = reader_of(tmp_path)
    assert rest(reader) == C
    lines = A.splitlines(keepends=True)
    for k, end in enumerate((10, 11, 11)):
        (tmp_path / f"rep.log.{9 - k}").write_bytes(b"".join(lines[:end]))
    assert read_with_older(restarted(reader)) == [b"", b"".join(lines[:10]), lines[10]]


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("restart", [False, True])
def test_older_lines_that_go_with_their_file_are_missing(tmp_path: Path, begun: bool, restart: bool) -> None:
    live, other = tmp_path / "rep.log", tmp_path / "rep.log.1"
    live.write_bytes(C)
    reader = reader_of(tmp_path)
    assert rest(reader) == C
    other.write_bytes(A)
    reader = restarted(reader)
    assert rest(reader) == b""
    mine = Stretch()
    older = SeriesReader(reader.series, reader.told, mine, only=reader.older[0])
    assert not begun or older.read(200)
    if restart and begun:
        older = SeriesReader(older.series, reader.told, mine, older.read_position, only=[])
    other.unlink()
    older.close()
    assert (rest(older), older.missing() is None, older.at_end) == (b"", False, True)
    older = SeriesReader(older.series, reader.told, mine, older.read_position, only=[])
    assert (rest(older), older.missing()) == (b"", None)


def test_another_file_with_the_inode_of_an_older_one_is_not_read_for_it(tmp_path: Path) -> None:
    """Its lines were told by the reader of older lines, and once more as those of the live log that it was."""
    live, other, spare = tmp_path / "rep.log", tmp_path / "rep.log.1", tmp_path / "spare"
    live.write_bytes(B)
    reader = reader_of(tmp_path)
    assert rest(reader) == B
    other.write_bytes(A)
    reader = restarted(reader)
    assert rest(reader) == b""
    live.rename(spare)
    other.rename(live)
    spare.rename(other)
    live.write_bytes(C)
    reader = restarted(reader)
    older = SeriesReader(reader.series, reader.told, Stretch(), only=reader.older[0])
    reader.older_readers.append(older)
    reader.told.stretches.append(older.mine)
    assert (rest(older), older.missing() is None, rest(reader)) == (b"", False, C)
    with live.open("ab") as file:
        file.write(A)
    assert (rest(reader), rest(older)) == (A, b"")


def test_older_lines_that_were_read_whole_may_go(tmp_path: Path) -> None:
    live, other = tmp_path / "rep.log", tmp_path / "rep.log.1"
    live.write_bytes(C)
    reader = reader_of(tmp_path)
    assert rest(reader) == C
    other.write_bytes(A)
    reader = restarted(reader)
    assert read_with_older(reader) == [b"", A]
    other.unlink()
    older = reader.older_readers[0]
    assert (rest(older), older.missing()) == (b"", None)


def empty(live: Path) -> None:
    live.write_bytes(A + B)
    os.truncate(live, 0)


def rotate_away(live: Path) -> None:
    with live.open("ab") as file:
        file.write(B)
    live.rename(live.with_name("elsewhere"))
    live.touch()


@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("gone", [empty, rotate_away], ids=lambda gone: gone.__name__)
def test_lines_that_went_with_the_file_of_the_last_line_are_missing_before_others_come(
    tmp_path: Path, gone: Callable[[Path], None], restart: bool, copied: bool
) -> None:
    live = tmp_path / "rep.log"
    live.write_bytes(A)
    if copied:
        shutil.copy(live, tmp_path / "rep.log-20261101")
    reader = reader_of(tmp_path)
    assert rest(reader) == A
    gone(live)
    reader = restarted(reader) if restart else reader
    with pytest.raises(PositionLost):
        rest(reader)
    reader.forget_end()
    assert rest(reader) == b""
    live.write_bytes(C)
    assert rest(reader) == C


def test_a_copy_of_the_live_log_beside_it_is_not_read(tmp_path: Path) -> None:
    live = tmp_path / "rep.log"
    live.write_bytes(A)
    (tmp_path / "rep.log-20261125").write_bytes(A[: A.index(b"A 20")])
    reader = reader_of(tmp_path)
    read = rest(reader)
    shutil.copy(live, tmp_path / "rep.log.bak.log.1")
    shutil.copy(live, tmp_path / "rep.log.7")
    with live.open("ab") as file:
        file.write(B)
    assert read + rest(reader) == A + B
    assert not reader.older


@pytest.mark.parametrize("restart", [False, True])
def test_a_log_that_is_replaced_by_a_longer_copy_is_read_on(tmp_path: Path, restart: bool) -> None:
    """As rsync, sed -i and cp back do: another file with the same first lines."""
    live, other, content = tmp_path / "rep.log", tmp_path / "other", A * 1
    live.write_bytes(A)
    reader = reader_of(tmp_path)
    read = rest(reader)
    for more in (B, C):
        content += more
        other.write_bytes(content)
        os.replace(other, live)
        reader = restarted(reader) if restart else reader
        read += rest(reader)
    assert read == A + B + C
    rotate(live)
    live.write_bytes(stock("3:00", 5, "D"))
    assert rest(reader) == stock("3:00", 5, "D")


def test_files_that_vanish_before_they_are_read_are_a_seam(tmp_path: Path) -> None:
    live = tmp_path / "rep.log"
    live.write_bytes(A)
    reader = reader_of(tmp_path)
    rest(reader)
    live.unlink()
    live.write_bytes(C)
    with pytest.raises(PositionLost):
        reader.read(1 << 16)
    reader.forget_end()
    assert rest(reader) == C


def test_numbered_lines_that_go_on_are_no_seam(tmp_path: Path) -> None:
    def numbered(numbers: range) -> bytes:
        return b"".join(b"%d|t|INFO|a.B|%d|x\n" % (1_700_000_000_000 + n, n) for n in numbers)

    live = tmp_path / "rep.log"
    live.write_bytes(numbered(range(1, 20)))
    reader = reader_of(tmp_path)
    rest(reader)
    live.unlink()
    live.write_bytes(numbered(range(20, 30)))
    assert rest(reader) == numbered(range(20, 30))


def test_a_numbered_file_that_is_gone_between_two_is_told(tmp_path: Path) -> None:
    live = tmp_path / "rep.log"
    live.write_bytes(stock("1:00", 9, "A"))
    reader = reader_of(tmp_path)
    rest(reader)
    contents = [stock(f"{hour}:00", 9, "x") for hour in (2, 3, 4)]
    for content in contents:
        rotate(live)
        live.write_bytes(content)
    (tmp_path / "rep.log.1").unlink()
    assert rest(reader) == contents[0] + contents[2]
    assert reader.missing() == "the files between rep.log.2 and rep.log are gone"


def test_older_files_that_are_offered_later_are_left_to_a_reader_of_their_own(tmp_path: Path) -> None:
    live = tmp_path / "rep.log"
    live.write_bytes(B)
    reader = reader_of(tmp_path)
    assert rest(reader) == B
    (tmp_path / "rep.log.1").write_bytes(A)
    assert rest(reader) == b""
    (older,) = reader.older
    mine = Stretch()
    reader.told.stretches.append(mine)
    second = SeriesReader(reader.series, reader.told, mine, only=older)
    assert rest(second) == A
    with (tmp_path / "rep.log.1").open("ab") as file:
        file.write(C)  # it was still arriving
    assert rest(reader) == b""
    assert rest(second) == C
    again = restarted(reader)
    assert rest(again) == b""
    assert again.older == [older]


def test_windows_of_a_log_share_no_first_line(tmp_path: Path) -> None:
    """As of `kubectl logs --since`, each over the one before."""
    live, lines = tmp_path / "rep.log", (A + B + C).splitlines(keepends=True)
    live.write_bytes(b"".join(lines[:60]))
    reader = reader_of(tmp_path)
    read = rest(reader)
    live.unlink()
    live.write_bytes(b"".join(lines[30:90]))
    read += rest(restarted(reader))
    assert read == b"".join(lines[:90])


def test_equal_single_lines_are_not_merged(tmp_path: Path) -> None:
    told, line = Stretch(), stock("1:00", 1, "x")
    told.append(line_digests(A + line))
    digests = line_digests(line + B)
    assert Told([told]).compare(digests, [(told, told.count)])[0] == []
    pair, _ = Told([told]).compare(line_digests(A[-200:][A[-200:].index(b"\n") + 1 :] + line + B), [(told, told.count)])
    assert [run.told_end for run in pair] == [told.count]


@pytest.mark.parametrize("code", [errno.EIO, errno.ESTALE, errno.EACCES, errno.EMFILE])
def test_a_file_that_cannot_be_read_is_not_at_its_end(tmp_path: Path, code: int, monkeypatch) -> None:
    live = tmp_path / "rep.log"
    live.write_bytes(A)
    reader = reader_of(tmp_path)
    now = [0.0]
    reader._files.failures = Failures(1.0, lambda: now[0])
    read = rest(reader)
    rotate(live)
    live.write_bytes(B)
    real, call = (os.open, "open") if code in (errno.EACCES, errno.EMFILE) else (os.read, "read")

    def broken(what: object, *rest_of: object) -> object:
        if call == "read" or str(what).endswith("rep.log"):
            raise OSError(code, os.strerror(code))
        return real(what, *rest_of)  # type: ignore[operator]

    with monkeypatch.context() as patch:
        patch.setattr(log_file.os, call, broken)
        for _ in range(4):
            now[0] += 100
            assert reader.read(1 << 16) == b""
            assert reader.blocked
        (reason,) = reader.take_unread()
        assert os.strerror(code) in reason
    now[0] += 100
    assert read + rest(reader) == A + B
    assert not reader.blocked
    assert not reader.take_unread()


def test_a_file_that_cannot_be_read_for_a_week_is_tried_each_minute() -> None:
    now = [0.0]
    failures = Failures(1.0, lambda: now[0])
    for _ in range(7 * 24 * 60):
        failures.add("a file", "away")
        now[0] += 59
        assert failures.waits("a file") is (_ > 5)
        now[0] += 1
    assert not failures.waits("a file")


def test_a_folder_is_not_listed_anew_for_each_of_its_files(tmp_path: Path, monkeypatch) -> None:
    """With a thousand files that was most of the time."""
    for number in range(1, 200):
        (tmp_path / f"rep.log.{number}").write_bytes(stock("1:00", 20, f"of {number}"))
    (tmp_path / "rep.log").write_bytes(A)
    time.sleep(0.1)
    listed, entries = [], Series.entries
    monkeypatch.setattr(Series, "entries", lambda self: listed.append(1) or entries(self))
    read = rest(reader_of(tmp_path))
    assert all(read.count(b" of %d " % number) == 20 for number in (1, 100, 199)), read[:200]
    assert len(listed) < 20


def test_twice_as_many_compressed_files_are_twice_as_many_bytes_to_read(tmp_path: Path, monkeypatch) -> None:
    """400 of them took six times as long as 200."""
    given, read_some = [0], LogBytes.read

    def read(self: LogBytes, limit: int) -> bytes:
        data = read_some(self, limit)
        given[0] += len(data)
        return data

    monkeypatch.setattr(LogBytes, "read", read)

    def bytes_given(count: int) -> int:
        folder, given[0] = tmp_path / f"{count}", 0
        folder.mkdir()
        for number in range(1, count + 1):
            (folder / f"rep.log.{number}.gz").write_bytes(gzip.compress(stock("1:00", 20, f"of {number}")))
            os.utime(folder / f"rep.log.{number}.gz", (0, 0))  # heads of files just written are read at each listing
        (folder / "rep.log").write_bytes(A)
        assert rest(reader_of(folder)).count(b" of ") == 20 * count
        return given[0]

    assert bytes_given(80) < 2.1 * bytes_given(40)


def test_a_folder_that_cannot_be_listed_ends_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "b"
    folder.mkdir()
    (folder / "rep.log").write_bytes(A)
    reader = reader_of(folder)
    read = rest(reader)
    folder.rename(tmp_path / "away")
    folder.write_bytes(b"")
    for _ in range(3):
        assert reader.read(100) == b""
        assert reader.blocked
    assert ["cannot be listed" in reason for reason in reader.take_unread()] == [True]
    folder.unlink()
    (tmp_path / "away").rename(folder)
    with (folder / "rep.log").open("ab") as file:
        file.write(B)
    assert read + rest(reader) == A + B


@pytest.mark.parametrize("before", [b"\0" * 5000, b"\xef\xbb\xbf", b"\0\xef\xbb\xbf"], ids=["zeros", "mark", "both"])
def test_zeros_or_a_mark_before_the_first_line_do_not_swallow_it(tmp_path: Path, before: bytes) -> None:
    live = tmp_path / "rep.log"
    live.write_bytes(before + A)
    reader = reader_of(tmp_path)
    read = reader.read(100) + reader.read(6000)
    assert read + rest(restarted(reader)) == A


ORDERS = {
    "log4j 1": (["x.log.1", "x.log.2", "x.log.10"], [30, 20, 10], ["x.log.10", "x.log.2", "x.log.1"]),
    "fileIndex=max": (["x.log.1", "x.log.2", "x.log.10"], [10, 20, 30], ["x.log.1", "x.log.2", "x.log.10"]),
    "an hour twice": (["x.log.1", "x.log.2", "x.log.3"], [15, 5, 10], ["x.log.3", "x.log.2", "x.log.1"]),
    "dates": (["x.log.2026-11-20-10", "x.log.2026-11-20-09"], [5, 9], ["x.log.2026-11-20-09", "x.log.2026-11-20-10"]),
    "names that say nothing": (["x.log.old", "x.log.bak"], [5, 3], ["x.log.bak", "x.log.old"]),
}


@pytest.mark.parametrize(("names", "times", "expected"), ORDERS.values(), ids=ORDERS.keys())
def test_the_order_of_files(names: list[str], times: list[float], expected: list[str]) -> None:
    order = oldest_first([rotated_name(name, "x.log") for name in names], times.__getitem__, lambda: 40)
    assert [names[k] for k in order] == expected


def test_a_file_that_is_not_offered_is_looked_at_once_where_the_end_is_lost(tmp_path: Path) -> None:
    live, beside = tmp_path / "rep.log", tmp_path / "rep.log.1"
    live.write_bytes(A)
    mine = Stretch()
    told = Told([mine])
    reader = SeriesReader(Series(tmp_path, live.name, frozenset([live.name])), told, mine)
    assert rest(reader) == A
    beside.write_bytes(B)
    live.write_bytes(C)
    with pytest.raises(PositionLost):
        rest(reader)
    reader.forget_end()
    assert rest(reader) == C
    again = SeriesReader(Series(tmp_path, live.name), told, mine, reader.read_position)
    assert rest(again) == b""
    assert [one.begin for (one,) in again.older] == [0], "offered later, it is read"


def test_the_next_file_waits_for_the_rest_of_a_copy_that_is_being_read(tmp_path: Path) -> None:
    live = tmp_path / "rep.log"
    live.write_bytes(A)
    reader = reader_of(tmp_path)
    assert rest(reader) == A
    (tmp_path / "rep.log.2").write_bytes(B)
    reader = restarted(reader)
    assert rest(reader) == b""
    older = SeriesReader(reader.series, reader.told, Stretch(), only=reader.older[0])
    reader.told.stretches.append(older.mine)
    reader.older_readers.append(older)
    some = older.read(200)
    live.rename(tmp_path / "rep.log.1")
    live.write_bytes(B)
    assert rest(reader) == b""
    assert some + rest(older) == B
    assert (rest(reader), reader.at_end) == (b"", True)


def test_a_position_forgets_files_that_are_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("generators.brokerlogs.tailing.file_choice.GONE_KEPT", 3)
    live = tmp_path / "rep.log"
    live.write_bytes(C)
    reader = reader_of(tmp_path)
    assert rest(reader) == C
    beside = []
    for k in range(20):
        beside.append(tmp_path / f"rep.log-202611{k + 1:02}")
        shutil.copy(live, beside[-1])
        assert rest(reader) == b""
    for path in beside:
        path.unlink()
    (tmp_path / "rep.log.1").write_bytes(C)
    assert rest(restarted(reader)) == b""
    assert rest(reader) == b""
    assert reader.read_position
    assert len(reader.read_position.seen) <= 2 + 3 + 1


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize(("form", "said"), [("{}|t|INFO|a.Logger|line {}\n", 1), ("{}|t|INFO|a.Logger|{}|x\n", 0)])
def test_what_was_written_between_a_copy_and_the_truncation_is_missing(
    tmp_path: Path, form: str, said: int, restart: bool
) -> None:
    """logrotate's `copytruncate`: nothing but the numbers of lines shows if some were. It was told as if none were."""

    def lines(*numbers: int) -> str:
        return "".join(form.format(1_700_000_000_000 + k, k) for k in numbers)

    live = tmp_path / "rep.log"
    live.write_text(lines(0, 1, 2))
    reader = reader_of(tmp_path)
    told, reasons = [read_with_older(reader)[0]], list[str]()
    shutil.copy(live, tmp_path / "rep.log.1")  # and then lines 3 and 4 are written
    for content in ("", lines(5), lines(5, 6)):
        with live.open("r+") as file:
            file.truncate(0 if not content else None)
            file.write(content)
        reader = restarted(reader) if restart else reader
        told += read_with_older(reader)[:1]
        reasons += filter(None, [reader.missing()])
    assert b"".join(told).decode() == lines(0, 1, 2, 5, 6)
    assert len(reasons) == said


def test_a_copy_that_grows_is_read_on_where_it_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was read whole at each change."""
    log = [b"%d|t|INFO|a.Logger|line %d %s\n" % (1_700_000_000_000 + k, k, b"x" * 50) for k in range(3000)]
    live, copy, read = tmp_path / "rep.log", tmp_path / "rep.log-20261125", list[int]()
    live.write_bytes(b"".join(log[:2000]))
    copy.write_bytes(b"".join(log[:2000]))
    reader, read_bytes = reader_of(tmp_path), LogBytes.read
    told = read_with_older(reader)[0]

    def count_bytes(data: LogBytes, limit: int) -> bytes:
        some = read_bytes(data, limit)
        read.append(len(some) if limit != SNIFF else 0)
        return some

    monkeypatch.setattr(LogBytes, "read", count_bytes)
    for count in (2001, 2500, 2501, 3000):
        live.write_bytes(b"".join(log[:count]))
        copy.write_bytes(b"".join(log[:count]))
        told += read_with_older(reader, 1 << 17)[0]
    assert told == b"".join(log)
    assert sum(read) == 2 * len(b"".join(log[2000:]))


@pytest.mark.parametrize("restart", [False, True])
def test_a_numbered_log_that_is_truncated_behind_a_stack_trace_goes_on(tmp_path: Path, restart: bool) -> None:
    """The number of its last line was taken for none."""
    live = tmp_path / "rep.log"
    live.write_text("1700000000000|t|INFO|a.Logger|7|x\njava.io.IOException: y\n\tat z\n")
    reader = reader_of(tmp_path)
    read_with_older(reader)
    shutil.copy(live, tmp_path / "rep.log.1")
    live.write_text("1700000000001|t|INFO|a.Logger|8|x\n")
    reader = restarted(reader) if restart else reader
    assert read_with_older(reader) == [live.read_bytes()]
    assert reader.missing() is None


def test_a_log_overwritten_by_lines_that_were_told_lacks_none(tmp_path: Path) -> None:
    live = tmp_path / "rep.log"
    live.write_bytes(A + B)
    reader = reader_of(tmp_path)
    assert rest(reader) == A + B
    live.write_bytes(B + C)
    assert read_with_older(reader) == [C]
    assert reader.missing() is None


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("is_seen_empty", [False, True])
@pytest.mark.parametrize("length", [20, 2000], ids=["shorter than before", "longer"])
def test_a_log_that_is_truncated_within_its_first_line_begins_behind_the_file_before_it(
    length: int, is_seen_empty: bool, restart: bool, tmp_path: Path
) -> None:
    """The file before it was told again from its beginning; after a restart the line that was gone had no word."""
    live, after = tmp_path / "rep.log", b"".join(B.splitlines(keepends=True)[1:])
    live.write_bytes(A)
    reader = reader_of(tmp_path)
    assert rest(reader) == A
    rotate(live)
    live.write_bytes(B[:30])
    assert rest(reader) == b""
    reader = restarted(reader) if restart else reader
    live.write_bytes(b"")
    assert not is_seen_empty or rest(reader) == b""
    live.write_bytes(after[:length])
    told, why = rest(reader), reader.missing()
    live.write_bytes(after)
    assert told + rest(reader) == after
    expected = f"{live} was truncated or overwritten, what was written last is not known"
    assert expected in (why, reader.missing())
