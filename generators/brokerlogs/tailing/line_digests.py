"""Digests of lines, by which it is known that they were told."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from generators.brokerlogs.forms.envelopes import bare_lines
from generators.brokerlogs.scanning.interning import hashes
from generators.brokerlogs.scanning.line_record import LONGEST

Digests = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_BEFORE_TIMES, _WHITESPACE = (np.frombuffer(one, np.uint8) for one in (b"[{0123456789", b"\t\n\r "))
_TIME = re.compile(rb"[^\n]{0,160}?(\d\d:\d\d:\d\d(?:[.,]\d+)?|(?<!\d)\d{10}(?:\d{3}|\.\d{1,9})?(?!\d))")
_CONTINUES = re.compile(rb"\s|(?:Caused by: |Suppressed: )?[a-z][\w$]*(?:\.[\w$]+)+(?::|\n)")
"""A line below a message, as of a trace: an exception has its class at the beginning of a line, and no time."""


def line_digests(lines: bytes) -> Digests:
    """A digest per whole line, as it was printed; odd numbers are those of lines that continue a message.

    These have no time: the same exceptions are printed again and again, so that they show nothing of whether lines were
    told. Neither do overlong lines.
    """
    if not lines:
        return np.zeros(0, np.int64)
    lines = bare_lines(lines)
    buf, offsets = np.frombuffer(lines, np.uint8), line_begins(lines)
    digests: Digests = np.where(np.diff(offsets) > LONGEST, 1, hashes(buf, offsets) & ~1)
    heads = buf[offsets[:-1]]
    continues: Mask = np.isin(heads, _WHITESPACE)
    for k in np.flatnonzero(~(continues | np.isin(heads, _BEFORE_TIMES))).tolist():
        continues[k] = _CONTINUES.match(lines, int(offsets[k])) or not _TIME.match(lines, int(offsets[k]))
    return digests | continues


def count_of_first_moment(lines: bytes) -> int:
    """The number of lines at the beginning that have the same time, and of those that continue them."""
    first, count = None, 0
    for line in bare_lines(lines).split(b"\n")[:-1]:
        time = None if _CONTINUES.match(line) else _TIME.match(line)
        if time and (first := first or time[1]) != time[1]:
            break
        count += 1
    return count if first else 0


def line_begins(lines: bytes) -> npt.NDArray[np.int64]:
    """The byte at which each whole line begins, and the end of the last one."""
    return np.concatenate([[0], np.flatnonzero(np.frombuffer(lines, np.uint8) == 10) + 1])


def last_lines_begin(lines: bytes, count: int) -> int:
    """The byte at which the last `count` lines begin."""
    begin = len(lines)
    for _ in range(count):
        begin = lines.rfind(b"\n", 0, begin - 1) + 1
    return begin


def last_message(digests: Digests) -> int:
    """The number of the line with which the last message begins, 0 where all lines continue one."""
    begins = np.flatnonzero(digests & 1 == 0)
    return int(begins[-1]) if len(begins) else 0


def last_message_line(lines: bytes, digests: Digests) -> bytes:
    """The line with which the last message begins, the first one where all lines continue one."""
    begin = last_lines_begin(lines, len(digests) - last_message(digests))
    return lines[begin : lines.find(b"\n", begin) + 1]
