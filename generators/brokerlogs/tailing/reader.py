"""Whole lines of one series of files from a stored position, through rotation and truncation."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from generators.brokerlogs.discovery.log_file import LogBytes
from generators.brokerlogs.discovery.log_series import Series, last_written
from generators.brokerlogs.scanning.line_record import LONGEST

HEAD = 1024
REMEMBERED = 100


class PositionLost(Exception):
    """What was read before is in none of the files: they are another log now."""


@dataclass(frozen=True)
class ReadPosition:
    """How far a series was read: `position` bytes of the file whose first `length` bytes have this `digest`.

    `done` has (digest, length) of the files finished before it, so that none is read twice.
    """

    digest: str
    length: int
    position: int
    done: tuple[tuple[str, int], ...] = ()

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> ReadPosition:
        return cls(**{**fields, "done": tuple((digest, length) for digest, length in fields["done"])})


class SeriesReader:
    """Reads a series line by line, oldest file first, from `read_position` where one is given.

    `at_end` is True when the last read found nothing more; a live file may still grow. Raises Stopped where
    decompression runs long and `stop` returns True.
    """

    def __init__(
        self,
        series: Series,
        read_position: ReadPosition | None = None,
        done: tuple[tuple[str, int], ...] = (),
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self.series = series
        self.at_end = False
        self._from = read_position
        self._stop = stop
        self._done = read_position.done if read_position else done
        self._file: LogBytes | None = None
        self._head = self._rest = b""
        self._position = self._endless = 0
        self._damage: list[str] = []
        self._missing: str | None = None

    @property
    def read_position(self) -> ReadPosition | None:
        """Where the next read begins; None before the first line."""
        if self._position == 0:  # this file cannot be identified yet: still at the end of the one before
            return self._from
        return ReadPosition(_digest(self._head), len(self._head), self._position, self._done)

    @property
    def torn(self) -> int:
        """Bytes at the end of the file that are no whole line yet."""
        return self._endless + len(self._rest)

    @property
    def growing(self) -> bool:
        """Whether a broker may still write to the current file."""
        return self._file is not None and not self._file.compressed and self._file.path.name == self.series.live

    def damage(self) -> list[str]:
        """Damage found in the files since the last call."""
        damage, self._damage = self._damage + ([self._file.damage] if self._file and self._file.damage else []), []
        return damage

    def missing(self) -> str | None:
        """Why lines are missing before those just read (the file before them was damaged), returned once."""
        why, self._missing = self._missing, None
        return why

    def read(self, limit: int) -> bytes:
        """About `limit` bytes of whole lines, or a part of an overlong one; empty at the end.

        Raises PositionLost where the files are other ones now.
        """
        while self._file is not None or self._begin():
            if lines := self._lines(limit):
                self.at_end = False
                return lines
            following = self._following()
            if following is None:
                break
            if lines := self._lines(limit) or self._end_line():  # lines may have been written before the rotation
                return lines
            self._enter(following)
        self.at_end = True
        return b"" if self._file is None or self.growing else self._end_line()

    def _end_line(self) -> bytes:
        """The torn last line of a finished file, with a newline added."""
        torn, line, self._rest = self.torn, self._rest, b""
        self._advance(line)
        self._endless = 0
        return line + b"\n" if torn else b""

    def _begin(self) -> bool:
        path = self._find(self._from) if self._from else self.series.oldest()
        if path is None:
            return False
        self._open(path, self._from.position if self._from else 0)
        if self._from and self._file:
            self._head = self._file.head(self._from.length)
        return True

    def _open(self, path: Path, position: int) -> None:
        self._damage = self.damage()
        self._file = LogBytes(path, position, self._stop)
        self._position, self._rest, self._endless = position, b"", 0

    def _enter(self, following: Path) -> None:
        """Mark the current file as done, and open the next."""
        self._missing = self._missing or (self._file.damage if self._file else None)
        if self._head:
            self._done = (*self._done, (_digest(self._head), len(self._head)))[-REMEMBERED:]
            self._from = self.read_position
        self._open(following, 0)
        self._head = b""

    def _lines(self, limit: int) -> bytes:
        """Whole lines of the current file; empty at its end."""
        assert self._file is not None
        while True:
            data = self._file.read(limit)
            if not self._intact(len(data)):
                self._open(self._find(self.read_position), self._position)
                continue
            if not data:
                return b""
            self._rest += data
            end = self._rest.rfind(b"\n") + 1 or (len(self._rest) if len(self._rest) > LONGEST else 0)
            lines, self._rest = self._rest[:end], self._rest[end:]
            self._advance(lines)
            self._endless = 0 if lines.endswith(b"\n") else self._endless + len(lines)
            if lines:
                return lines

    def _advance(self, lines: bytes) -> None:
        self._position += len(lines)
        self._head += lines[: HEAD - len(self._head)]

    def _intact(self, fresh: int) -> bool:
        """Whether the open file still has what was read from it: not truncated, not overwritten."""
        assert self._file is not None
        stat = self._file.stat()
        if self._file.compressed or stat is None:
            return True
        kept = self._position + len(self._rest) + fresh <= stat.st_size
        return kept and self._file.head(len(self._head)) == self._head

    def _find(self, read_position: ReadPosition | None) -> Path:
        """The newest file with the head and at least the length that `read_position` requires."""
        for path in reversed(self.series.files()):
            if (
                read_position
                and _digest(LogBytes(path).read(read_position.length)) == read_position.digest
                and self._reaches(path, read_position.position)
            ):
                return path
        raise PositionLost

    def _reaches(self, path: Path, position: int) -> bool:
        if path.name.endswith(".gz"):
            return LogBytes(path, position, self._stop).skipped == position
        try:
            return path.stat().st_size >= position
        except OSError:
            return False

    def _following(self) -> Path | None:
        """The file to read after the current one; None while there is none."""
        assert self._file is not None
        stat, name = self._file.stat(), self._file.path
        if self.growing and stat is not None and _same(self._file.path, stat):
            return None
        files = self.series.files()
        at = next((i for i, path in enumerate(files) if _same(path, stat) or (stat is None and path == name)), None)
        if at is None:
            at = next((i for i, path in enumerate(files) if self._head and _begins(path, self._head)), None)
        if at is not None:
            return files[at + 1] if at + 1 < len(files) else None
        return next((path for path in files if stat is not None and last_written(path) >= stat.st_mtime_ns), None)


def first_not_done(series: Series, read_position: ReadPosition | None) -> Series:
    """The series without the files that were finished before the position was lost."""
    done = set(read_position.done) if read_position else set()
    fresh = [path.name for path in series.files() if not any(_digest(LogBytes(path).read(n)) == d for d, n in done)]
    return replace(series, named=frozenset([*fresh, series.live]))


def _digest(head: bytes) -> str:
    return hashlib.sha256(head).hexdigest()


def _begins(path: Path, head: bytes) -> bool:
    return LogBytes(path).read(len(head)) == head


def _same(path: Path, stat: os.stat_result | None) -> bool:
    try:
        return stat is not None and os.path.samestat(os.stat(path), stat)
    except FileNotFoundError:
        return False
