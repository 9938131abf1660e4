"""A rule that rewrites lines of one known form into a layout that the scanner reads."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

Replacement = bytes | Callable[[re.Match[bytes]], bytes]


class Rule(NamedTuple):
    """Lines that match `pattern` become `replacement`; every other line stays as it is.

    `rest` finds what is left of each line where that is b"": twice as fast as a look for the beginning at each byte.
    """

    name: str
    pattern: re.Pattern[bytes]
    replacement: Replacement
    rest: re.Pattern[bytes]

    def apply(self, lines: bytes) -> bytes:
        """These lines, rewritten where they match."""
        return self.pattern.sub(self.replacement, lines) if self.replacement else b"".join(self.rest.findall(lines))


def line_rule(name: str, pattern: str, replacement: Replacement) -> Rule:
    """A rule whose pattern begins at the start of a line; `.` matches no end of a line."""
    begin = b"^" + pattern.encode()
    rest = re.compile(b"(?:" + begin + rb")*([^\n]*\n?)", re.MULTILINE)
    return Rule(name, re.compile(begin, re.MULTILINE), replacement, rest)
