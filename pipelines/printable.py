"""Names that others chose, as they may be printed: nothing in them moves a cursor, ends a line or turns its direction.

What is left out stands there as `\\x1b` or `\\u202e`; a byte of a file name that is no UTF-8 as `\\xff`.
"""

from __future__ import annotations

import re

_HARMFUL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
"""Control characters (C0, DEL, C1), ends of lines, marks and overrides of direction, halves of surrogate pairs."""


def printable(text: str) -> str:
    """One line of text that is safe for a terminal, a page and UTF-8; line ends in it are escaped, too."""
    return _HARMFUL.sub(_escaped, text)


def spreadsheet_text(text: str) -> str:
    """The same for a cell of CSV: an apostrophe before what a spreadsheet would run makes it text."""
    return f"'{printable(text)}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else printable(text)


def printable_lines(text: str) -> str:
    """The same for a text of several lines, which stay."""
    return "\n".join(map(printable, text.split("\n")))


def file_name(name: str) -> str:
    """A file name as an identifier in UTF-8: itself, or where it is none, with escapes that no other name has."""
    if name.isprintable() and "\\" not in name:
        return name
    return _SURROGATES.sub(_escaped, name.replace("\\", "\\\\"))


_SURROGATES = re.compile(r"[\ud800-\udfff]")


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    if 0xDC80 <= code <= 0xDCFF:  # a byte that os.fsdecode could not decode
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
