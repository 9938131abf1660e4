"""A rule that rewrites lines of one known form into a layout that the scanner reads."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

Replacement = bytes | Callable[[re.Match[bytes]], bytes]


class Rule(NamedTuple):
    """Lines that match `pattern` become `replacement`; every other line stays as it is."""

    name: str
    pattern: re.Pattern[bytes]
    replacement: Replacement

    def apply(self, lines: bytes) -> bytes:
        """These lines, rewritten where they match."""
        return self.pattern.sub(self.replacement, lines)


def line_rule(name: str, pattern: str, replacement: Replacement) -> Rule:
    """A rule whose pattern begins at the start of a line; `.` matches no end of a line."""
    return Rule(name, re.compile(b"^" + pattern.encode(), re.MULTILINE), replacement)
