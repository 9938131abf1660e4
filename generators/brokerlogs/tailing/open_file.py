"""A file being read: its whole lines, and how it lies on what was told."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import NamedTuple

from generators.brokerlogs.discovery.log_file import LogBytes
from generators.brokerlogs.discovery.log_series import Entry
from generators.brokerlogs.forms.envelopes import unfinished
from generators.brokerlogs.scanning.line_record import LONGEST
from generators.brokerlogs.tailing.told_lines import Run, Stretch

TAIL = 1024
_NUMBER = re.compile(rb"\d{13}\|[^|\n]*\|[A-Z]+\|[^|\n]*\|(\d+)\|")
_LONGEST_TRACE = 1000
"""Lines behind a message in which its number is looked for."""
_MARK = b"\xef\xbb\xbf"
"""With it editors begin a file in UTF-8."""


class Seen(NamedTuple):
    """Bytes read of a file, its size and time then (-1 where there was more), a digest of what is before, and what is
    wrong with the rest.

    The digest is of the bytes before `offset`; of a compressed file, of its last ones.
    """

    offset: int
    size: int
    mtime_ns: int
    tail: str
    damage: str = ""


class OpenFile:
    """A file from the line at `offset` on.

    `limits` is how much was told when it was opened, `run` what the piece before the next one ended with; if it no more
    has what was seen of it `before`, `is_as_before` is False. Lines of an
    `older` file that were never told lie before those told last; they begin at the bytes `never_told`.
    """

    def __init__(
        self,
        entry: Entry,
        offset: int,
        *,
        older: bool = False,
        limits: list[tuple[Stretch, int]] | None = None,
        before: Seen | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self.entry, self.offset, self.older, self.limits = entry, offset, older, limits or []
        self.bytes = LogBytes(entry.path, offset, stop)
        self.is_as_before = before is None or _holds(self.bytes, before)
        self.begins = offset == 0
        self.run: Run | None = None
        self.goes_on = False
        """Whether the last line told was found in it."""
        self.holds_end = False
        """Whether it has the last line that its reader told."""
        self.last_line = b""
        """The line with which the last message before the next piece begins."""
        self.never_told: list[int] = []
        self.first_number = -1
        """The number (%sn) of the first of the lines never told."""
        self._noted_end = -1
        self._rest, self._endless = b"", 0
        self._leading = offset == 0
        """Whether only zeros were read, which a writer leaves that did not notice that its file was truncated."""
        self._packed = self.bytes.stat() if self.bytes.is_compressed else None
        """The compressed file as it was opened: what is written to it since is not read."""
        begin = self._packed.st_size if self._packed else offset
        self._tail = self._tail_before = self.bytes.before(begin, TAIL)

    @property
    def torn(self) -> int:
        """Bytes at its end that are no whole line yet."""
        return self._endless + len(self._rest)

    def whole_lines(self, data: bytes) -> bytes:
        """The lines that these next bytes end, or a part of an overlong one."""
        if self._leading:
            length = len(data)
            data = data.lstrip(b"\0").removeprefix(_MARK)
            self.offset, self._leading = self.offset + length - len(data), not data
            self._tail = self._tail if self._packed else self.bytes.before(self.offset, TAIL)
        data = self._rest + data
        lines = data[: data.rfind(b"\n") + 1]
        end = unfinished(lines) or (len(data) if len(data) > LONGEST else 0)
        self._rest = data[end:]
        return self._advance(lines if end == len(lines) else data[:end])

    def last_lines(self) -> bytes:
        """The whole lines that were put back, where no more follow."""
        end = unfinished(self._rest[: self._rest.rfind(b"\n") + 1])
        lines, self._rest = self._rest[:end], self._rest[end:]
        return self._advance(lines)

    def put_back(self, lines: bytes) -> None:
        """Give these again, the last ones given, with those that follow."""
        self.offset -= len(lines)
        self._tail = self._tail_before = self._tail_at(len(lines))
        self._rest = lines + self._rest

    def torn_line(self) -> bytes:
        """The rest that is no whole line, or parts of one, with a newline at its end; empty where nothing is left."""
        torn, line, self._rest = self.torn, self._rest, b""
        self._advance(line)
        self._endless = 0
        return line.removesuffix(b"\n") + b"\n" if torn else b""

    def take_endless(self) -> bool:
        """Whether the line that was ended now is one that was given in parts."""
        endless, self._endless = self._endless > 0, 0
        return endless

    def note(self, begin: int, end: int, number: int) -> None:
        """The lines between these bytes were never told; the first one has this number (%sn)."""
        if not self.never_told:
            self.first_number = number
        if begin != self._noted_end:
            self.never_told.append(begin)
        self._noted_end = end

    @property
    def ends_untold(self) -> bool:
        """Whether the last lines read were never told."""
        return self._noted_end == self.offset

    def _advance(self, lines: bytes) -> bytes:
        self.offset += len(lines)
        if not self._packed:
            self._tail_before = self._tail + lines
            self._tail = self._tail_before[-TAIL:]
        if lines and not lines.endswith(b"\n"):
            self._endless += len(lines)
        return lines

    def _tail_at(self, back: int) -> bytes:
        """The bytes before the last ones of those just given."""
        return self._tail if self._packed else self._tail_before[: len(self._tail_before) - back][-TAIL:]

    def is_intact(self, fresh: int) -> bool:
        """Whether it still has what was read from it, `fresh` bytes just now: not truncated, not overwritten."""
        stat = self.bytes.stat()
        if self._packed or stat is None:
            return True
        end = self.offset + len(self._rest)
        return end + fresh <= stat.st_size and self.bytes.before(end, TAIL) == (self._tail + self._rest)[-TAIL:]

    def is_packed_anew(self) -> bool:
        """Whether a compressed file is another one than when it was opened."""
        if (then := self._packed) is None or (stat := self.bytes.stat()) is None:
            return False
        is_same = (stat.st_size, stat.st_mtime_ns) == (then.st_size, then.st_mtime_ns)
        return not is_same or self.bytes.before(stat.st_size, TAIL) != self._tail

    def is_at_end(self) -> bool:
        """Whether no byte of a plain file follows those given, now."""
        stat = self.bytes.stat()
        return not self._packed and stat is not None and self.offset + len(self._rest) >= stat.st_size

    def bytes_read(self, back: int = 0, *, ended: bool = False) -> Seen:
        """Return the bytes read of it so far, without the last ones of those just given; `ended` at its end."""
        stat = self._packed or self.bytes.stat()
        if stat is None:
            return Seen(self.offset, -1, -1, "")
        is_whole = ended or b"\n" not in self._rest
        is_read = not back and self.offset + len(self._rest) >= stat.st_size and is_whole
        mtime_ns = stat.st_mtime_ns if (ended if self._packed else is_read) else -1
        damage = self.bytes.damage if ended else None
        tail = self._tail_at(back) or (self._rest[-TAIL:] if mtime_ns >= 0 and not self._packed else b"")
        return Seen(self.offset - back, stat.st_size, mtime_ns, _digest(tail), damage or "")


def is_under_its_name(data: LogBytes, entry: Entry) -> bool:
    """Whether this is the file that was listed: another one may have taken its name."""
    stat = data.stat()
    return stat is not None and (stat.st_dev, stat.st_ino) == entry.key


def holds(entry: Entry, seen: Seen) -> bool:
    """Whether a file has now what was seen of it; also True where it has another name by now, or cannot be opened."""
    data = LogBytes(entry.path)
    return not is_under_its_name(data, entry) or _holds(data, seen)


def _holds(data: LogBytes, seen: Seen) -> bool:
    torn = seen.size if seen.mtime_ns >= 0 else 0
    stat, end = data.stat(), seen.size if data.is_compressed else seen.offset or torn
    return stat is not None and stat.st_size >= end and _digest(data.before(end, TAIL)) == seen.tail


def is_whole(entry: Entry, seen: Seen | None) -> bool:
    """Whether the file was read to the end that it has."""
    return seen is not None and (entry.size, entry.mtime_ns) == (seen.size, seen.mtime_ns)


def _digest(tail: bytes) -> str:
    return hashlib.blake2b(tail, digest_size=8).hexdigest()


def line_number(lines: bytes) -> int:
    """The number (%sn) of the first line, -1 where it has none."""
    found = _NUMBER.match(lines)
    return int(found[1]) if found else -1


def last_number(lines: bytes) -> int:
    """The number (%sn) of the last message, -1 where it has none; a stack trace may stand behind its line."""
    begin, looked_at = len(lines), 0
    while begin > 0 and looked_at < _LONGEST_TRACE:
        begin, looked_at = lines.rfind(b"\n", 0, begin - 1) + 1, looked_at + 1
        if found := _NUMBER.match(lines, begin):
            return int(found[1])
    return -1
