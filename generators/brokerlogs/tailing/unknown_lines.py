"""The lines of files that were not told yet, laid on those that were."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from generators.brokerlogs.discovery.log_series import Entry
from generators.brokerlogs.discovery.walk import Identity
from generators.brokerlogs.scanning.line_record import LONGEST
from generators.brokerlogs.tailing.file_choice import FileChoice
from generators.brokerlogs.tailing.line_digests import (
    Digests,
    count_of_first_moment,
    digest_lines,
    last_message,
    line_digests,
)
from generators.brokerlogs.tailing.open_file import OpenFile, last_number, line_number
from generators.brokerlogs.tailing.read_position import PositionLost
from generators.brokerlogs.tailing.seams import hole_before, missing_files, place
from generators.brokerlogs.tailing.told_lines import Run, Stretch, Told, has_no_others


class UnknownLines:
    """Finds what `told` lacks of the files of a reader, and adds it to the stretch `mine`.

    `number` is that (%sn) of the last line told, -1 without. `is_of_older`: the reader reads older lines only.
    """

    def __init__(self, files: FileChoice, told: Told, mine: Stretch, number: int, *, is_of_older: bool) -> None:
        self.told, self.mine, self.number = told, mine, number
        self._files, self._is_of_older = files, is_of_older
        self._missing: str | None = None
        self.torn = b""
        """The torn last line of the file before the open one."""
        self.has_told = False
        """Whether lines of the open file were told."""
        self._repeated: Identity | None = None
        """The file whose lines are to be told again, and the one of which that is accepted."""
        self._accepted: Identity | None = None
        self._hole: str | None = None
        """The reason why lines may be missing before the open file, which begins with lines never told."""

    def note_missing(self, why: str | None) -> None:
        """Note why lines are missing before the next ones; the first reason counts."""
        self._missing = self._missing or why

    def take_missing(self) -> str | None:
        """Return why lines are missing before those returned last, once."""
        why, self._missing = self._missing, None
        return why

    def forget_end(self) -> None:
        """Let the next lines follow none of those told."""
        self.number, self._accepted = -1, self._repeated

    def enter(self, before: Entry, entry: Entry, entries: Sequence[Entry], *, older: bool) -> None:
        """Note that a file is opened after the one `before` it in `entries`, if it is not `older`."""
        if older:
            return
        self._hole = hole_before(before, entry, entries)
        self.note_missing(missing_files(before, entry, entries))
        if self._files.take_emptied(entry) and self.number < 0:  # numbers show themselves if some are missing
            why = f"{place(entry)} was truncated or overwritten, what was written last is not known"
            self._hole = why if entry.size else None
            self.note_missing(None if entry.size else why)

    def take(self, file: OpenFile, lines: bytes, *, ended: bool = False) -> bytes:
        """Return those of the next lines of a file that are to be told now; `ended` if no more follow.

        Two lines in a row show that they were told, so that the last message waits for the next one.
        """
        if not lines.endswith(b"\n"):
            return b"" if file.older else lines
        digests, bounds = digest_lines(lines)
        if file.take_endless():
            digests[0] = 1
        runs, alone = self.told.compare(digests, file.limits, begins=file.begins, after=file.run)
        last = [run.end for run in runs if (run.stretch, run.told_end) in file.limits]
        new = 0 if file.goes_on else min(last, default=len(digests))
        if alone[new:].any():  # what follows the last one may be equal lines of the same moment
            first = last_message(digests[:new])
            before = lines[bounds[first] : bounds[first + 1]] if new else file.last_line
            alone[new : new + count_of_first_moment(before + lines[bounds[new] :]) - bool(before)] = False
        file.goes_on = file.goes_on or bool(last)
        waits = len(digests) if ended else last_message(digests)
        if alone[:waits].any() and has_no_others(digests, runs, alone):
            self._pass(file, None)
            return b""
        again = np.zeros(len(digests), np.bool_)
        if file.begins and (runs or alone.any()):  # a moment may go on behind a rotation, with lines that are equal
            together = count_of_first_moment(lines)
            again[:together], alone[:together] = alone[:together], False
            others = [run for run in runs if run.end <= together and run.end not in (*last, len(digests))]
            for run in (run for run in others if run.at not in run.stretch.starts):
                again[run.begin : run.end] = True
                runs.remove(run)
        if alone[:waits].any():
            runs = self._repeat(file, lines)
        known = runs[-1].end if runs else 0
        if file.limits and not ended and known < len(digests):
            waits = max(waits, known)
            if waits or len(lines) <= LONGEST:
                file.put_back(lines[bounds[waits] :])
                lines, digests, bounds = lines[: bounds[waits]], digests[:waits], bounds[: waits + 1]
            if not lines:
                return b""
        if file.begins and not file.older and (not runs or runs[0].begin > 1):  # the first line may be cut
            self.note_missing(None if line_number(lines) == self.number + 1 > 0 else self._hole)
        if not self._is_of_older:  # lines before some that were told are older, but for a first one that was cut
            ends = [int(file.begins), *(run.end for run in runs)]
            file.older = file.older or any(run.begin > end for run, end in zip(runs, ends, strict=False))
        known, first = 0, last_message(digests)
        file.last_line = lines[bounds[first] : bounds[first + 1]]
        if runs:  # others before them may have been told one by one
            runs[:0] = [Run(k, k + 1, self.mine, -1) for k in np.flatnonzero(again[: runs[0].begin]).tolist()]
        if runs or file.older:
            lines, known = self._between(file, lines, digests, bounds, runs)
        else:
            told = self._tell(file, lines, digests)
            if again.any():
                fresh = b"".join(
                    lines[bounds[k] : bounds[k + 1]] for k in np.flatnonzero(~again[: len(digests)]).tolist()
                )
                told = told[: len(told) - len(lines)] + fresh
            lines = told
        self._pass(file, runs[-1] if runs and runs[-1].end == len(digests) else None, known)
        return lines

    def _repeat(self, file: OpenFile, lines: bytes) -> list[Run]:
        """Let all lines of a file be told from here on, as an unknown part of them was told: no runs of them count.

        Raises PositionLost if lines that may be later ones were told before them.
        """
        why = f"{place(file.entry)} has lines that were told before, they are told again"
        if not file.older and self.mine.count and file.entry.key != self._accepted:
            self._repeated = file.entry.key
            file.put_back(lines)
            raise PositionLost(why)
        if not (file.older or self.mine.count):
            self.note_missing(why)
        file.limits = []
        return []

    def _pass(self, file: OpenFile, run: Run | None, known: int = 0) -> None:
        """Note that a piece was looked at, which ends with this run, and so many bytes that others told."""
        file.run, file.begins = run, False
        if not file.older or known:
            self._files.seen[file.entry.key] = file.bytes_read(known)
        if self._files.end == file.entry.key:
            self._files.untold = tuple(file.never_told)

    def _between(
        self, file: OpenFile, lines: bytes, digests: Digests, bounds: npt.NDArray[np.int64], runs: Sequence[Run]
    ) -> tuple[bytes, int]:
        """Return the lines between the runs, but for older ones, which are noted, and the bytes after the last one.

        These are 0 unless others told what follows it, and the lines of this reader end there.
        """
        told, at, known = [], 0, 0
        for run in [*runs, Run(len(digests), len(digests), self.mine, -1)]:
            between = lines[bounds[at] : bounds[run.begin]]
            if between and not file.older:
                told.append(self._tell(file, between, digests[at : run.begin], seam=at > 0))
                known = len(lines) - int(bounds[run.begin])
            elif between:
                begin = file.offset - len(lines) + int(bounds[at])
                file.note(begin, begin + len(between), line_number(between))
            at = run.end
            if run.at >= 0:
                ends = (self.mine.count, *(end for one, end in file.limits if one is self.mine))
                continues = run.stretch is self.mine and run.told_end in ends  # since then it told this file's lines
                file.holds_end |= continues
                file.older = not continues and (file.older or self._is_of_older)
        return b"".join(told), known if file.older else 0

    def _tell(self, file: OpenFile, lines: bytes, digests: Digests, *, seam: bool = False) -> bytes:
        """Add lines to those told; returns them behind the torn one of the file before, unless they have it whole.

        `seam`: lines that were told stand before them in this piece.
        """
        torn, self.torn = self.torn, b""
        if len(torn) > 1 and lines.startswith(torn[:-1]):
            torn = b""
        if torn:
            self.mine.append(line_digests(torn))
        if file.begins or file.run or seam or not self.mine.count:
            self.mine.starts.append(self.mine.count)
        self.has_told = file.holds_end = True
        self._files.end = file.entry.key
        self._files.begin(file.entry.key)
        self.mine.append(digests)
        self.number = last_number(lines)
        return torn + lines
