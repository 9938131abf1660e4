"""The file of a series that is to be read next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from generators.brokerlogs.discovery.codecs import plain_name
from generators.brokerlogs.discovery.log_file import is_settled
from generators.brokerlogs.discovery.log_series import Entry
from generators.brokerlogs.discovery.walk import Identity
from generators.brokerlogs.tailing.failures import ROUNDS, Failures
from generators.brokerlogs.tailing.open_file import OpenFile, Seen, holds, is_whole
from generators.brokerlogs.tailing.read_position import Examined, Older, ReadPosition

if TYPE_CHECKING:
    from generators.brokerlogs.tailing.reader import SeriesReader

_NOWHERE = (-1, -1)
"""Stands for the file that held the line told last, once that file has other content."""
GONE_KEPT = 256
"""Files that are no more of which a position still has how far they were read."""


class Choice(NamedTuple):
    """A file to read, whether its unknown lines are older than those told last, and why one before it is left out."""

    entry: Entry
    older: bool
    skipped: str | None


class FileChoice:
    """The files of a series, how far each was read, and the next one; for `only` see SeriesReader.

    `end` is the file that holds the line told last, `located` is True while that is there. `blocked` is True while a
    file that comes next cannot be read.
    """

    def __init__(self, failures: Failures, position: ReadPosition | None, only: Sequence[Older] | None) -> None:
        self.failures, self._only = failures, only
        self.seen: dict[Identity, Seen] = dict(position.seen) if position else {}
        self.end: Identity | None = position.end if position else None
        self.older: list[list[Older]] = [*map(list, position.older)] if position else []
        self.older_readers: list[SeriesReader] = []
        self.examined: dict[Identity, Examined] = {}
        self.located = self.blocked = self._has_rest = False
        self._settled = dict[Identity, tuple[int, int]]()
        """Sizes and times of files that were looked into once nothing could be written at that time any more."""
        self.begun = position.begun if position and only is not None else 0
        """How many of `only` were begun, or are gone."""
        self._emptied: Identity | None = None
        """The file that lost the content which it had when it was read."""
        self.last_older = position.last_older if position else None
        """The file with which the older lines end that were found last."""
        self.untold: Sequence[int] = position.untold if position else ()
        """The bytes at which older lines begin in the file with the line told last, until its end is seen."""

    def forget_end(self) -> None:
        """Choose among the files that are not known: what followed the line told last is gone, or is told again."""
        if self._only and self.begun and self._only[self.begun - 1][:2] == self.end:
            self.begun -= 1
        self.end = None
        self.examined.clear()

    def leave_end(self) -> None:
        """Read the file with the line told last no further: another reader tells what follows."""
        self.end, self.located, self._has_rest = None, False, False

    def forget(self, key: Identity) -> None:
        """Note that a file has other content now."""
        if self.seen.pop(key, None) is not None:
            self._emptied = key

    def take_emptied(self, entry: Entry) -> bool:
        """Return True if this is the file with the line told last, which has other content now; said once."""
        emptied, self._emptied = self._emptied, None if self._emptied == entry.key else self._emptied
        return emptied == entry.key

    def locate(self, entries: Sequence[Entry], file: OpenFile | None) -> None:
        """Look for the file with the line told last; `file` is the open one."""
        if len(self.seen) > len(entries) + GONE_KEPT:
            there = {entry.key for entry in entries} | {self.end}
            for key in [key for key in self.seen if key not in there][:-GONE_KEPT]:
                del self.seen[key]
                self._settled.pop(key, None)
        if self.end in self.seen:
            self._has_rest = self.seen[self.end].mtime_ns < 0
        found = self._is_there(entries, file)
        if found and not self.located:  # the others are looked at again, one by one
            self.examined = {key: examined for key, examined in self.examined.items() if key == self.end}
        self.located = found
        if found:
            self.publish(entries)
        for entry in entries:
            seen = self.seen.get(entry.key)
            if seen and seen.damage and is_whole(entry, seen) and not self.failures.is_told(entry.key):
                self.failures.add(entry.key, seen.damage, ROUNDS)

    def choose(self, entries: Sequence[Entry], file: OpenFile | None) -> Choice | None:
        """The next file; None where there is nothing, or it cannot be read now."""
        skipped: str | None = None
        self.blocked = False
        for entry, older in self._targets(entries, file):
            if not self.failures.waits(entry.key):
                return Choice(entry, older, skipped)
            left = self.failures.is_told(entry.key)
            if not left and (not older or not self.located):
                self.blocked = True
                return None
            skipped = skipped or (None if older else left)
        self.blocked = skipped is not None
        return None

    def choose_unseen(self, kept: Sequence[Entry], file: OpenFile | None) -> Choice | None:
        """The next file of a listing of before, if that is one which was never looked at."""
        if self.end is not None and not (self.located and self.end in self.seen):
            return None
        if self.located and all(entry.key != self.end for entry in kept):
            return None
        if self.located:
            self.publish(kept)
        targets = self._targets(kept, file)
        entry, older = next(targets, (None, False))
        if entry and self.located and entry.key == self.end:  # it was looked at less than a second ago
            entry, older = next(targets, (None, False))
            entry = entry if older else None
        if entry is None or entry.key in self.seen or entry.key in self.examined or self.failures.waits(entry.key):
            return None
        return Choice(entry, older, None)

    def first_number(self, entries: Sequence[Entry]) -> int:
        """The number (%sn) of the first line never told in the files looked at; -1 without."""
        looked_at = (self.examined[entry.key] for entry in entries if entry.key in self.examined)
        return next((examined.number for examined in looked_at if examined.never_told), -1)

    def older_are_told(self) -> bool:
        """Whether the lines of files looked at that are older were read."""
        readers = self.older_readers
        return len(readers) >= len(self.older) and all(reader.at_end for reader in readers)

    def take_rest_is_gone(self, entries: Sequence[Entry]) -> bool:
        """Whether a file of older lines went before all of it was read, each said once; no other has its end."""
        if not self.located and self._has_rest:
            self.end, self._has_rest = _NOWHERE, False
            return True
        if self.next_only() is None or any(map(self._still_is_next_only, entries)):
            return False
        self.begun += 1
        return True

    def end_before(self, entries: Sequence[Entry]) -> bool:
        """Whether all files end before the line told last, with lines that were told: what follows may be elsewhere."""
        older = {only[:2] for one in self.older for only in one}

        def is_told(entry: Entry) -> bool:
            seen = self.seen.get(entry.key)
            return bool(seen and seen.offset and entry.key not in self.examined and is_whole(entry, seen))

        def ends_before(entry: Entry) -> bool:
            one = self.examined.get(entry.key)
            return bool(one.never_told) and not one.ends_untold if one else entry.key in older or is_told(entry)

        return all(map(is_told if self.end == _NOWHERE else ends_before, entries))

    def begin(self, key: Identity) -> None:
        """Note that lines of this file were told, or that it has none to tell."""
        only = self.next_only()
        self.begun += only is not None and key == only[:2]

    def next_only(self) -> Older | None:
        """The place in the next of `only` where that begins; None where all were begun."""
        return self._only[self.begun] if self._only and self.begun < len(self._only) else None

    def _still_is_next_only(self, entry: Entry) -> bool:
        """Whether this is the next of `only`: its end is read, as another file may have its inode."""
        only = self.next_only()
        return only is not None and entry.key == only[:2] and (only.seen is None or holds(entry, only.seen))

    def _is_there(self, entries: Sequence[Entry], file: OpenFile | None) -> bool:
        """Whether the file with the line told last still has what was read of it."""
        entry = next((entry for entry in entries if entry.key == self.end), None)
        if entry is None:
            return False
        if file and file.entry.key == entry.key and not file.older:
            file.entry = entry
            return True
        seen = self.seen.get(entry.key)
        if self.failures.waits(entry.key) or (seen and holds(entry, seen)):
            return True
        self.forget(entry.key)
        self.end = _NOWHERE
        return False

    def _targets(self, entries: Sequence[Entry], file: OpenFile | None) -> Iterator[tuple[Entry, bool]]:
        """The files to be read, in order, and whether their unknown lines are older than those told last."""
        follows = any(entry.live and entry.offered for entry in entries)
        given = [entry for entry in entries if follows or entry.offered]
        """The files that are to be read: where the live one was given, also what it was rotated to since."""
        if self.located:
            at = next(k for k, entry in enumerate(entries) if entry.key == self.end)
            end = entries[at]
            seen = self.seen[end.key]
            is_open = file is not None and file.entry.key == end.key
            torn = seen.offset < end.size and plain_name(end.path.name) == end.path.name
            readers = self.older_readers if self._only is None else []
            taken = {entry.key for entry in (entries if readers else ()) if any(one.follows(entry) for one in readers)}
            has_more = end in given and (torn or end.live or not is_whole(end, seen)) and end.key not in taken
            if not is_open and (has_more or self.untold):
                yield end, False
            if self._only is None and self.older_are_told():  # a file after it may have the rest of what they read
                free = {entry.key for entry in given} - taken
                yield from (
                    (entry, False) for entry in entries[at + 1 :] if entry.key in free and self._is_unknown(entry)
                )
                older = (entry for entry in entries[:at] if entry.offered and entry.key in free)
                yield from ((entry, True) for entry in older if self._is_unknown(entry))
        elif self.end is not None:
            to_come = {one[:2] for one in (self._only or ())[self.begun :]}
            yield from ((entry, True) for entry in entries if entry.key not in to_come and self._is_unknown(entry))
        elif self._only is None:
            offered = next((k for k, entry in enumerate(given) if entry.offered), len(given))
            yield from ((entry, False) for entry in given[offered:] if self._is_unknown(entry))
        yield from ((entry, False) for entry in entries if self._still_is_next_only(entry))

    def _is_unknown(self, entry: Entry) -> bool:
        examined = self.examined.get(entry.key)
        if examined and (self._only is not None or self._was_read(entry, examined.seen)):
            return False
        return not self._was_read(entry, self.seen.get(entry.key))

    def _was_read(self, entry: Entry, seen: Seen | None) -> bool:
        """Whether a file was read to the end that it has: it may have been written again at the same time."""
        if seen is None or not is_whole(entry, seen):
            return False
        stamp = entry.size, entry.mtime_ns
        if self._settled.get(entry.key) != stamp:
            if not holds(entry, seen):
                return False
            if is_settled(entry.mtime_ns):
                self._settled[entry.key] = stamp
        return True

    def publish(self, entries: Sequence[Entry]) -> None:
        """The end of what was told is found: unknown lines of files before it are older."""
        for key, examined in self.examined.items() if self._only is None else ():
            for begin in examined.never_told:
                if begin or not self._continues_older(key, entries):
                    self.older.append([])
                else:
                    self.older_readers[-1].at_end = False
                self.older[-1].append(Older(*key, begin, examined.seen))
            if examined.never_told:
                self.seen[key] = examined.seen
                self.last_older = key if examined.ends_untold else None
        if self._only is None:
            self.examined.clear()

    def _continues_older(self, key: Identity, entries: Sequence[Entry]) -> bool:
        """Whether this file follows the one that the last reader of older lines has read to its end."""
        at = next((k for k, entry in enumerate(entries) if entry.key == key), 0)
        before, there = entries[at - 1], entries[at]
        has_gap = min(before.number, there.number) >= 0 and abs(before.number - there.number) > 1
        is_read = bool(self.older_readers) and before.key == self.last_older == self.older_readers[-1].reading
        return at > 0 and is_read and not has_gap and len(self.older_readers) == len(self.older)
