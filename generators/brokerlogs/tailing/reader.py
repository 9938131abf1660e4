"""The lines of one series of files that were not told yet, whatever is done to the files."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from generators.brokerlogs.discovery.log_series import Entry, Series
from generators.brokerlogs.discovery.walk import Identity
from generators.brokerlogs.tailing.failures import ROUNDS, Failures
from generators.brokerlogs.tailing.file_choice import FileChoice
from generators.brokerlogs.tailing.open_file import OpenFile, Seen, holds, is_under_its_name
from generators.brokerlogs.tailing.read_position import Examined, Older, PositionLost, ReadPosition
from generators.brokerlogs.tailing.seams import place
from generators.brokerlogs.tailing.told_lines import Run, Stretch, Told
from generators.brokerlogs.tailing.unknown_lines import UnknownLines
from pipelines.printable import printable


class SeriesReader:
    """Reads what `told` lacks of a series, oldest file first, and adds it to the stretch `mine`.

    The file that holds the last line told is read on, then the files after it. Unknown lines of files before it are
    `older`: `older_readers` read them, those of one file before the next file is looked at, and `only` is what such a
    reader reads, which may become more. `waits` is True when the last read found nothing more, `at_end` if none of
    those readers finds more, either, `blocked` while a file that comes next cannot be read. `retry_s` is the first
    delay before such a file is read again. Raises Stopped where decompression runs long and `stop` returns True.
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
        self.at_end = self.waits = self.blocked = False
        self._only, self._stop = only, stop
        self._files = FileChoice(Failures(retry_s), position, only)
        self.older, self.older_readers = self._files.older, self._files.older_readers
        """The places of unknown lines before those that were told, by reader, and these readers."""
        number = position.number if position else -1
        self._lines = UnknownLines(self._files, told, mine, number, is_of_older=only is not None)
        self._file: OpenFile | None = None
        self._pending = b""
        """Bytes read already of the open file."""
        self._known: dict[Identity, tuple[Seen, Run]] = {}
        """Ends of files all lines of which were told, and where on these lines: copies grow, too."""

    @property
    def read_position(self) -> ReadPosition | None:
        """The position of the next read; None before the first line."""
        files = self._files
        if not (self.mine.count or files.seen or files.begun):
            return None
        older, ends = tuple(map(tuple, self.older)), (files.end, self._lines.number, dict(files.seen))
        return ReadPosition(self.mine.count, *ends, older, files.begun, files.last_older, files.untold)

    @property
    def torn(self) -> int:
        """Bytes at the end of the file that are no whole line yet."""
        return self._file.torn if self._file else 0

    @property
    def reading(self) -> Identity | None:
        """The file that this reader follows as the file grows; None if it was not found in the last listing."""
        return self._files.end if self._files.located else None

    def follows(self, entry: Entry) -> bool:
        """Whether this reader follows a file, or will once it has listed the files."""
        seen = self._files.seen.get(entry.key) if entry.key == self._files.end else None
        return seen is not None and (self._files.located or holds(entry, seen))

    def take_unread(self) -> list[str]:
        """Why files are left for later, each once."""
        return self._files.failures.take()

    def missing(self) -> str | None:
        """Why lines are missing before those just read, returned once."""
        return self._lines.take_missing()

    def forget_end(self) -> None:
        """Read on with the files that are not known: what followed the last line told is gone."""
        self._file = None
        self._lines.forget_end()
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
        self.at_end = self.waits = self.blocked = False
        while True:
            if lines := self._read_on(limit):
                return lines
            if not self._pending and not self._advance(limit):
                self.waits, self.at_end = True, self._files.older_are_told()
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
                if lines := self._lines.take(file, file.last_lines(), ended=True):
                    return lines
                self._on_end(file)
                if (file.older and self._only is None) or file.is_packed_anew():
                    self._file = None
                break
            elif lines := self._lines.take(file, file.whole_lines(data), ended=file.is_at_end()):
                return lines
        return b""

    def _on_end(self, file: OpenFile) -> None:
        """The end of a file was seen."""
        key, seen, run, files = file.entry.key, file.bytes_read(ended=True), file.run, self._files
        if not file.bytes.damage:
            files.failures.end(key)
        elif not files.failures.is_told(key):
            files.failures.add(key, file.bytes.damage, ROUNDS)
        if file.bytes.damage and not file.offset:
            return
        files.begin(key)
        if self._only is not None and self._lines.has_told and run is None and file.entry.live:
            self._lines.note_missing(f"nothing shows what follows {place(file.entry)}")
        ends = Run(0, 0, self.mine, self.mine.count) if run is None and self._lines.has_told else run
        self._lines.has_told = False
        if ends is not None and not file.never_told:
            self._known[key] = seen, ends
        if file.bytes.damage and files.seen.get(key) != seen:
            self._lines.note_missing(file.bytes.damage)
        holds_end = file.holds_end and not file.older
        if holds_end:
            files.end = key
        goes_on = file.never_told or (run and run.stretch is not self.mine)  # with lines that others tell
        if key == files.end and goes_on:
            self._file = None
            if self._only is not None:
                files.leave_end()
        is_asked_for = (file.entry.offered or holds_end) and self._only is None
        if file.never_told and is_asked_for:
            files.examined[key] = Examined(seen, tuple(file.never_told), file.first_number, file.ends_untold)
        if not file.older or not file.never_told:
            files.seen[key] = seen
        elif not is_asked_for:  # it is looked at once
            files.examined[key] = Examined(seen)
        file.never_told = []  # its end may be seen again while it stays open
        files.untold = () if key == files.end else files.untold

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
        self._known = {entry.key: self._known[entry.key] for entry in entries if entry.key in self._known}
        if (choice := files.choose(entries, self._file)) is not None:
            self._lines.note_missing(choice.skipped)
            return self._enter(choice.entry, entries, limit, older=choice.older, listed=entries is not kept)
        self.blocked = files.blocked
        if not self.blocked and files.take_rest_is_gone(entries):
            self._lines.note_missing("a log file was removed before it was read to its end")
        if files.end is not None and not files.located and not self.blocked and self._only is None:
            if entries is kept:  # sizes may be others by now
                self.series.listing.forget()
                return True
            return self._on_lost_end(entries, limit)
        return False

    def _enter(self, entry: Entry, entries: Sequence[Entry], limit: int, *, older: bool, listed: bool = True) -> bool:
        """Open a file, once all of the one before is read; True. It is not another one that has its name by now.

        If it was not `listed` just now, that is no failure.
        """
        file, files, end = self._file, self._files, self._files.end
        left = file if file and not older and file.entry.key == end != entry.key else None
        if left:
            self._pending = left.bytes.read(limit)  # lines may have been written before the rotation
            if self._pending or left.bytes.error:
                return True
        opened = self._open(entry, older=older)
        if opened.bytes.error:
            files.failures.add(entry.key, opened.bytes.error)
        elif not is_under_its_name(opened.bytes, entry):
            self.series.listing.forget()
            if listed:
                files.failures.add(entry.key, f"{place(entry)} is another file whenever it is opened")
        elif opened.is_as_before:
            if left:
                self._lines.torn = b"" if left.bytes.damage else left.torn_line()
            if (seen := files.seen.get(entry.key)) and not (seen.offset or holds(entry, seen)):
                files.forget(entry.key)  # the line that it had begun is gone
            before = next((one for one in entries if one.key == end), entry)
            self._lines.enter(before, entry, entries, older=older)
            self._file = opened
        return True

    def _open(self, entry: Entry, *, older: bool) -> OpenFile:
        """A file from the first byte that is not known."""
        files, limits = self._files, self.told.limits()
        seen = before = files.seen.get(entry.key) if entry.key == files.end and not older else None
        offset, run = seen.offset if seen else 0, None
        if seen and seen.mtime_ns < 0 and self.mine.starts:  # its rest may have been told by another file
            limits = [(one, self.mine.starts[-1] if one is self.mine else end) for one, end in limits]
        elif seen:
            limits = []
        elif self._only:
            only = files.next_only() if files.end is None else None
            offset, before = (only.begin, only.seen) if only else (0, None)
        elif limits and entry.key in self._known:
            before, run = self._known.pop(entry.key)
            offset = before.offset
        opened = OpenFile(entry, offset, older=older, limits=limits, before=before, stop=self._stop)
        opened.run = run
        if seen:
            opened.never_told, opened.holds_end = [*files.untold], True
        return opened

    def _on_lost_end(self, entries: Sequence[Entry], limit: int) -> bool:
        """The lines told last are in no file: read on where the numbers of the lines do. Raises PositionLost."""
        if not entries:
            return False
        number = self._files.first_number(entries)
        if self._lines.number < 0 or number != self._lines.number + 1:
            if not self._files.end_before(entries):
                raise PositionLost("the last ones told are in none of the files")
            self._files.publish(entries)
            return False
        self.forget_end()
        return self._advance(limit)
