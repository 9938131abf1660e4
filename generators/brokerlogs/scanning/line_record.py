"""A scanned line: its position, kind and numbers."""

from __future__ import annotations

import numpy as np

CONTINUATION, BROKEN, IGNORED, REQUEST, NOTED = 0, 1, 2, 3, 4
RECORDED, ADVANCED, SKIPPED, UNDER_MIN, FOLLOWER_HW = 5, 6, 7, 8, 9
RARE, PROPOSED, ALTER, TRUNCATING, UNIFIED, CREATING, LEADING, DUMPED = 10, 11, 12, 13, 14, 15, 16, 17
"""Kinds of lines. From RARE on a line is read one at a time, by regular expression, and may change the state."""

LINE = np.dtype(
    [
        ("start", "i8"),
        ("end", "i8"),
        ("message", "i8"),
        ("ts", "i8"),
        ("number", "i8"),  # %sn, -1 without
        ("kind", "i1"),
        ("stock", "i1"),
        ("thread", "i4"),  # -1 in the stock pattern
        ("logger", "i4"),
        ("place", "i4"),
        ("broker", "i4"),
        ("members", "i4"),  # size of the ISR that a line names, 0 where it names none
        ("replica", "i4"),  # of a follower's HW line: the leader
        ("count", "i4"),  # upper bound of the replicas that a SKIPPED line names
        ("a", "i8"),
        ("b", "i8"),
    ],
    align=True,
)
NUMBERS, THREADS = 4, 2
"""Grades of a pattern: with line numbers, with threads; the stock pattern has 0."""
LONGEST = 1 << 20
"""Longest line in bytes; a longer one is counted as broken."""
