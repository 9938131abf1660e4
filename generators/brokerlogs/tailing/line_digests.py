"""Digests of lines, by which it is known that they were told."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from generators.brokerlogs.forms.envelopes import bare_lines, parts_end
from generators.brokerlogs.scanning.interning import hashes
from generators.brokerlogs.scanning.line_record import LONGEST

Digests = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_BEFORE_TIMES, _WHITESPACE = (np.frombuffer(one, np.uint8) for one in (b"[{0123456789", b"\t\n\r "))
_TIME = re.compile(rb"[^\n]{0,160}?(\d\d:\d\d:\d\d(?:[.,]\d+)?|(?<!\d)\d{10}(?:\d{3}|\.\d{1,9})?(?!\d))")
_CONTINUES = re.compile(rb"\s|(?:Caused by: |Suppressed: )?[a-z][\w$]*(?:\.[\w$]+)+(?::|\n)")
"""A line below a message, as of a trace: an exception has its class at the beginning of a line, and no time."""


def line_digests(lines: bytes) -> Digests:
    """The digests of `digest_lines`."""
    return digest_lines(lines)[0]


def digest_lines(text: bytes) -> tuple[Digests, npt.NDArray[np.int64]]:
    """Return a digest per whole line, as it was printed, the byte at which each begins, and the end of the last one.

    Odd numbers are digests of lines that continue a message. These have no time: the same exceptions are printed again
    and again, so that they show nothing of whether lines were told. Neither do overlong lines. All parts of a line in
    an envelope are one line.
    """
    lines = bare_lines(text)
    buf, offsets = np.frombuffer(lines, np.uint8), _begins(lines)
    digests: Digests = np.where(np.diff(offsets) > LONGEST, 1, hashes(buf, offsets) & ~1)
    heads = buf[offsets[:-1]]
    continues: Mask = np.isin(heads, _WHITESPACE)
    for k in np.flatnonzero(~(continues | np.isin(heads, _BEFORE_TIMES))).tolist():
        continues[k] = _CONTINUES.match(lines, int(offsets[k])) or not _TIME.match(lines, int(offsets[k]))
    begins = offsets if lines is text else _begins(text)
    if len(begins) > len(offsets):
        begins = begins[~np.isin(begins, parts_end(text)) | (begins == len(text))]
    return digests | continues, begins


def count_of_first_moment(lines: bytes) -> int:
    """The number of lines at the beginning that have the same time, and of those that continue them."""
    first, count = None, 0
    for line in bare_lines(lines).split(b"\n")[:-1]:
        time = None if _CONTINUES.match(line) else _TIME.match(line)
        if time and (first := first or time[1]) != time[1]:
            break
        count += 1
    return count if first else 0


def _begins(lines: bytes) -> npt.NDArray[np.int64]:
    return np.concatenate([[0], np.flatnonzero(np.frombuffer(lines, np.uint8) == 10) + 1])


def last_message(digests: Digests) -> int:
    """The number of the line with which the last message begins, 0 where all lines continue one."""
    begins = np.flatnonzero(digests & 1 == 0)
    return int(begins[-1]) if len(begins) else 0
