"""Lines of a known logger that are not as expected: cut off when their writer ended, or in another wording."""

from __future__ import annotations

from generators.brokerlogs.scanning.arrays import Array, compiled
from generators.brokerlogs.scanning.byte_text import digits, is_cut, literal
from generators.brokerlogs.scanning.line_header import stock_time
from generators.brokerlogs.scanning.line_record import BROKEN, RARE

T_RECORDED = literal("Recorded replica \1 log end offset (LEO) position \1 and log start offset \1.")
T_ADVANCED = literal("High watermark updated from (offset=\1, segment=[\1:\1]) to (offset=\1, segment=[\1:\1])")
T_ADVANCED_TO = literal("High watermark updated to (offset=\1 segment=[\1:\1])")
T_SKIPPED = literal(
    "Skipping update high watermark since new hw (offset=\1, segment=[\1:\1]) is not larger than old value. "
    "All current LEOs are "
)
"""Kafka's most frequent messages, with byte 1 for a number: a line that ends within one was cut off, any other has
another wording."""


@compiled
def two_lines(buf: Array, pos: int, end: int) -> bool:
    """Whether the header of another line stands in buf[pos:end]: the first line was cut off, with its newline."""
    for k in range(pos, end - 26):
        if (buf[k] == 124 and digits(buf, k - 13, 13) > 0) or (buf[k] == 91 and stock_time(buf, k) >= 0):
            return True
    return False


@compiled
def torn(buf: Array, pos: int, end: int, shape: Array) -> int:
    """BROKEN for a line that was cut off, RARE for one in another wording than `shape`."""
    return BROKEN if is_cut(buf, pos, end, shape) or two_lines(buf, pos, end) else RARE
