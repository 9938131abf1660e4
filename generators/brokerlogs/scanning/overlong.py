"""Whole lines of a stream of bytes; an unfinished line is kept, an overlong one is replaced by a marker."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from generators.brokerlogs.scanning.line_record import LONGEST

AT_ONCE = 1 << 18
"""Lines in one piece: while it is read, a line of one byte takes a hundred times its size."""
UNREADABLE = b"\0"
"""In place of a line longer than LONGEST: it is no text, and so counts as broken."""


class WholeLines:
    """Cuts bytes, fed in any portions, into pieces of whole lines; the lines do not depend on the portions.

    `rest` is the unfinished line, at most LONGEST bytes; `dropped` means that it was longer and is not kept.
    """

    def __init__(self, rest: bytes = b"", dropped: bool = False) -> None:
        self.rest, self.dropped = (b"", True) if dropped or len(rest) > LONGEST else (rest, False)
        self.overlong = 0
        """Overlong lines that were finished."""

    def pieces(self, data: bytes) -> list[bytes]:
        """The lines that `data` ends, at most AT_ONCE in each piece."""
        if self.dropped:
            end = data.find(b"\n")
            data = b"" if end < 0 else UNREADABLE + data[end:]
            self.dropped, self.overlong = end < 0, self.overlong + (end >= 0)
        data = self.rest + data
        ends = np.flatnonzero(np.frombuffer(data, np.uint8) == 10) + 1
        whole = int(ends[-1]) if len(ends) else 0
        self.rest = data[whole:]
        if len(self.rest) > LONGEST:
            self.rest, self.dropped = b"", True
        bounds = [0, *ends[AT_ONCE - 1 : -1 : AT_ONCE].tolist(), whole]
        return [self._shortened(data[a:b]) for a, b in pairwise(bounds) if b > a]

    def _shortened(self, lines: bytes) -> bytes:
        """These lines with UNREADABLE in place of those that are too long."""
        if len(lines) <= LONGEST:
            return lines
        ends = np.flatnonzero(np.frombuffer(lines, np.uint8) == 10)
        long = np.flatnonzero(np.diff(ends, prepend=-1) - 1 > LONGEST).tolist()
        self.overlong += len(long)
        for k in reversed(long):
            lines = lines[: ends[k - 1] + 1 if k else 0] + UNREADABLE + lines[ends[k] :]
        return lines
