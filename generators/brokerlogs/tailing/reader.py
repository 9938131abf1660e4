"""The lines of one series of files that were not told yet, whatever is done to the files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from generators.brokerlogs.discovery.log_file import LogBytes
from generators.brokerlogs.discovery.log_series import Entry, Series
from generators.brokerlogs.discovery.walk import Identity
from generators.brokerlogs.scanning.line_record import LONGEST
from generators.brokerlogs.tailing.failures import ROUNDS, Failures
from generators.brokerlogs.tailing.file_choice import FileChoice
from generators.brokerlogs.tailing.open_file import OpenFile, Seen, holds, line_number
from generators.brokerlogs.tailing.read_position import Examined, Older, PositionLost, ReadPosition
from generators.brokerlogs.tailing.seams import hole_before, missing_files, place
from generators.brokerlogs.tailing.told_lines import (
    Digests,
    Run,
    Stretch,
    Told,
    last_lines_begin,
    last_message,
    line_begins,
    line_digests,
)
from pipelines.printable import printable


class SeriesReader:
    """Reads what `told` lacks of a series, oldest file first, and adds it to the stretch `mine`.

    The file that holds the last line told is read on, then the files after it. Unknown lines of files before it are
    `older`: `older_readers` read them, those of one file before the next file is looked at, and `only` is what such a
    reader reads, which may become more. `at_end` is True when the last read found nothing more, `blocked` while a file
    that comes next cannot be read. `retry_s` is the first delay before such a file is read again. Raises Stopped where
    decompression runs long and `stop` returns True.
    """

    def __init__(
        self,
        series: Series,
        told: Told,
        mine: Stretch,
        position: ReadPosition | None = None,
        *,
        only: Sequence[Older] | None = None,
        retry_s: float = 0.0,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self.series, self.told, self.mine = series, told, mine
        self.at_end = self.blocked = False
        self._only, self._stop = only, stop
        self._files = FileChoice(Failures(retry_s), position, only)
        self._number = position.number if position else -1
        self._file: OpenFile | None = None
        self._pending = self._torn = b""
        """Bytes read already of the open file, and the torn last line of the file before it."""
        self._missing: str | None = None
        self._known: dict[Identity, tuple[Seen, Run]] = {}
        """Ends of files all lines of which were told, and where on these lines: copies grow, too."""
        self._hole: str | None = None
        """Why lines may be missing before the open file if it begins with lines that were never told."""
        self._has_told = False
        """Whether lines of the open file were told."""

    @property
    def older(self) -> list[list[Older]]:
        """The places of unknown lines before those that were told, by reader."""
        return self._files.older

    @property
    def older_readers(self) -> list[SeriesReader]:
        """The readers of these; may be set."""
        return self._files.older_readers

    @older_readers.setter
    def older_readers(self, readers: list[SeriesReader]) -> None:
        self._files.older_readers = readers

    @property
    def read_position(self) -> ReadPosition | None:
        """Where the next read begins; None before the first line."""
        files = self._files
        if not (self.mine.count or files.seen or files.begun):
            return None
        older = tuple(map(tuple, self.older))
        return ReadPosition(self.mine.count, files.end, self._number, dict(files.seen), older, files.begun)

    @property
    def torn(self) -> int:
        """Bytes at the end of the file that are no whole line yet."""
        return self._file.torn if self._file else 0

    @property
    def reading(self) -> Identity | None:
        """The file that this reader follows as the file grows; None if it was not found in the last listing."""
        return self._files.end if self._files.located else None

    def take_unread(self) -> list[str]:
        """Why files are left for later, each once."""
        return self._files.failures.take()

    def missing(self) -> str | None:
        """Why lines are missing before those just read, returned once."""
        why, self._missing = self._missing, None
        return why

    def forget_end(self) -> None:
        """Read on with the files that are not known: what followed the last line told is gone."""
        self._file, self._number = None, -1
        self._files.forget_end()

    @property
    def is_open(self) -> bool:
        """Whether it holds a file open."""
        return self._file is not None

    def close(self) -> None:
        """Close the file; the next read opens it again."""
        self._file = None

    def read(self, limit: int) -> bytes:
        """About `limit` bytes of whole lines, or a part of an overlong one; empty where there is nothing to tell now.

        Raises PositionLost.
        """
        self.at_end = self.blocked = False
        while True:
            if lines := self._read_on(limit):
                return lines
            if not self._pending and not self._advance(limit):
                self.at_end = self._files.older_are_told()
                return b""

    def _read_on(self, limit: int) -> bytes:
        """Lines of the open file; empty at its end, and where it cannot be read on."""
        while file := self._file:
            data = self._pending or file.bytes.read(limit)
            self._pending = b""
            if file.bytes.error or not file.is_intact(len(data)):
                if file.bytes.error:
                    self._files.failures.add(file.entry.key, file.bytes.error)
                else:
                    self._files.forget(file.entry.key)
                self._file = None
            elif not data:
                if lines := self._fresh(file, file.last_lines(), ended=True):
                    return lines
                self._on_end(file)
                if file.older and self._only is None:
                    self._file = None
                break
            elif lines := self._fresh(file, file.whole_lines(data)):
                return lines
        return b""

    def _fresh(self, file: OpenFile, lines: bytes, *, ended: bool = False) -> bytes:
        """Those of the next lines of a file that are to be told now; `ended` where no more follow.

        Two lines in a row show that they were told, so that the last message waits for the next one.
        """
        if not lines.endswith(b"\n"):
            return b"" if file.older else lines
        digests = line_digests(lines)
        if file.take_endless():
            digests[0] = 0
        runs = self.told.lay(digests, file.limits, begins=file.begins, after=file.run) if file.limits else []
        known = runs[-1].end if runs else 0
        if file.limits and not ended and known < len(digests):
            waits = max(last_message(digests), known)
            begin = last_lines_begin(lines, len(digests) - waits)
            if begin or len(lines) <= LONGEST:
                file.put_back(lines[begin:])
                lines, digests = lines[:begin], digests[:waits]
            if not lines:
                return b""
        if file.begins and not file.older and (not runs or runs[0].begin > 1):  # the first line may be cut
            self._missing = self._missing or (None if line_number(lines) == self._number + 1 > 0 else self._hole)
        tell = self._tell if not runs and not file.older else partial(self._unknown, runs=runs)
        lines = tell(file, lines, digests)
        file.run, file.begins = runs[-1] if runs and runs[-1].end == len(digests) else None, False
        if not file.older:
            self._files.seen[file.entry.key] = file.seen()
        return lines

    def _unknown(self, file: OpenFile, lines: bytes, digests: Digests, runs: Sequence[Run]) -> bytes:
        """The lines between the runs, but for older ones, which are noted."""
        bounds = line_begins(lines)
        told, at = [], 0
        for run in [*runs, Run(len(digests), len(digests), self.mine, -1)]:
            between = lines[bounds[at] : bounds[run.begin]]
            if between and not file.older:
                told.append(self._tell(file, between, digests[at : run.begin], seam=at > 0))
            elif between:
                begin = file.offset - len(lines) + int(bounds[at])
                file.note(begin, begin + len(between), line_number(between))
            if run.at >= 0:
                at = run.end
                continues = run.stretch is self.mine and run.told_end == self.mine.count
                file.older = not continues and (file.older or self._only is not None)
        return b"".join(told)

    def _tell(self, file: OpenFile, lines: bytes, digests: Digests, *, seam: bool = False) -> bytes:
        """Add lines to those told; returns them behind the torn one of the file before, unless they have it whole.

        `seam`: lines that were told stand before them in this piece.
        """
        torn, self._torn = self._torn, b""
        if len(torn) > 1 and lines.startswith(torn[:-1]):
            torn = b""
        if torn:
            self.mine.append(line_digests(torn))
        if file.begins or file.run or seam or not self.mine.count:
            self.mine.starts.append(self.mine.count)
        self._has_told = True
        self._files.end = file.entry.key
        self._files.begin(file.entry.key)
        self.mine.append(digests)
        self._number = line_number(lines[lines.rfind(b"\n", 0, len(lines) - 1) + 1 :])
        return torn + lines

    def _on_end(self, file: OpenFile) -> None:
        """The end of a file was seen."""
        key, seen, run, files = file.entry.key, file.seen_whole(), file.run, self._files
        if not file.bytes.damage:
            files.failures.end(key)
        elif not files.failures.is_told(key):
            files.failures.add(key, file.bytes.damage, ROUNDS)
        if file.bytes.damage and not file.offset:
            return
        files.begin(key)
        if self._only is not None and self._has_told and run is None and file.entry.live:
            self._missing = self._missing or f"nothing shows what follows {place(file.entry)}"
        ends = Run(0, 0, self.mine, self.mine.count) if run is None and self._has_told else run
        self._has_told = False
        if ends is not None and not file.never_told:
            self._known[key] = seen, ends
        if file.bytes.damage and files.seen.get(key) != seen:
            self._missing = self._missing or file.bytes.damage
        holds_end = run is not None and run.stretch is self.mine and run.told_end == self.mine.count
        if holds_end and not (files.located and file.older):  # of a log and its copy the log, which goes on
            files.end, file.older = key, False
        is_asked_for = file.entry.offered and self._only is None
        if file.never_told and is_asked_for:
            files.examined[key] = Examined(seen, tuple(file.never_told), file.first_number, file.ends_untold)
        if not file.older or not file.never_told:
            files.seen[key] = seen
        elif not is_asked_for:  # it is looked at once
            files.examined[key] = Examined(seen)
        file.never_told = []  # its end may be seen again while it stays open

    # -- from file to file

    def _advance(self, limit: int) -> bool:
        """Open what is to be read next; False where there is nothing."""
        folder, files = self.series.folder, self._files
        kept = self.series.listing.kept(self.series)
        if kept and self._only is None and (choice := files.choose_unseen(kept, self._file)):
            return self._enter(choice.entry, kept, limit, older=choice.older, listed=False)
        reads_older = self._only is not None or not files.older_are_told()
        try:  # of older lines no more come: a second more or less is all the same
            entries = (reads_older and kept) or self.series.listing.take(self.series)
        except OSError as error:
            name = printable(str(error.filename or folder))
            self._files.failures.add(folder, f"{name}: cannot be listed ({error.strerror})")
            self.blocked = True
            return False
        self._files.failures.end(folder)
        files.locate(entries, self._file)
        if (choice := files.choose(entries, self._file)) is not None:
            self._missing = self._missing or choice.skipped
            return self._enter(choice.entry, entries, limit, older=choice.older, listed=entries is not kept)
        self.blocked = files.blocked
        if not self.blocked and files.take_rest_is_gone(entries):
            self._missing = "a log file was removed before it was read to its end"
        if files.end is not None and not files.located and not self.blocked and self._only is None:
            return self._on_lost_end(entries, limit)
        return False

    def _enter(self, entry: Entry, entries: Sequence[Entry], limit: int, *, older: bool, listed: bool = True) -> bool:
        """Open a file, once all of the one before is read; True. Not `listed` just now, another may have its name."""
        files, file, end = self._files, self._file, self._files.end
        if file and not older and file.entry.key == end != entry.key:
            self._pending = file.bytes.read(limit)  # lines may have been written before the rotation
            if self._pending:
                return True
            self._torn = b"" if file.bytes.damage else file.torn_line()
        before = next((one for one in entries if one.key == end), entry)
        self._hole = hole_before(before, entry, entries)
        if not older:
            self._missing = self._missing or missing_files(before, entry)
        if not older and files.take_emptied(entry) and self._number < 0:  # numbers show themselves if some are missing
            self._missing = self._missing or f"{place(entry)} was emptied in place, what was written last is not known"
        seen = self._files.seen.get(entry.key) if entry.key == end and not older else None
        offset, limits = (seen.offset, []) if seen else (0, self.told.limits())
        if self._only and end is None:
            offset = next((only.begin for only in self._only if only[:2] == entry.key), 0)
        known = self._known.pop(entry.key, None) if limits and not self._only else None
        if known and not holds(entry, known[0], LogBytes(entry.path)):
            known = None
        opened = OpenFile(entry, known[0].offset if known else offset, older=older, limits=limits, stop=self._stop)
        opened.run = known[1] if known else None
        if not listed and not opened.is_listed_as(entry):
            self.series.listing.forget()
            return True
        self._file = None if opened.bytes.error else opened
        if opened.bytes.error:
            self._files.failures.add(entry.key, opened.bytes.error)
        return True

    def _on_lost_end(self, entries: Sequence[Entry], limit: int) -> bool:
        """The lines told last are in no file: read on where the numbers of the lines do. Raises PositionLost."""
        if not entries:
            return False
        number = self._files.first_number(entries)
        if self._number < 0 or number != self._number + 1:
            if not self._files.end_before(entries):
                raise PositionLost
            self._files.publish(entries)
            return False
        self.forget_end()
        return self._advance(limit)
