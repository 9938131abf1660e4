"""Lines of a known logger that are not as expected: cut short by what ended their writer, or worded in another way."""

from __future__ import annotations

from generators.brokerlogs.scanning.arrays import Array, compiled
from generators.brokerlogs.scanning.byte_text import digits, is_cut, words
from generators.brokerlogs.scanning.line_header import stock_time
from generators.brokerlogs.scanning.line_record import BROKEN, RARE

T_RECORDED = words("Recorded replica \1 log end offset (LEO) position \1 and log start offset \1.")
T_ADVANCED = words("High watermark updated from (offset=\1, segment=[\1:\1]) to (offset=\1, segment=[\1:\1])")
T_SKIPPED = words(
    "Skipping update high watermark since new hw (offset=\1, segment=[\1:\1]) is not larger than old value. "
    "All current LEOs are "
)
"""What Kafka prints most, 1 for each number: a line that ends within was cut, any other was worded anew."""


@compiled
def two_lines(buf: Array, pos: int, end: int) -> bool:
    """Whether the head of another line stands in buf[pos:end]: the first was cut, with its end."""
    for k in range(pos, end - 26):
        if (buf[k] == 124 and digits(buf, k - 13, 13) > 0) or (buf[k] == 91 and stock_time(buf, k) >= 0):
            return True
    return False


@compiled
def torn(buf: Array, pos: int, end: int, shape: Array) -> int:
    """BROKEN for a line cut short, RARE for one that is worded in another way than `shape`."""
    return BROKEN if is_cut(buf, pos, end, shape) or two_lines(buf, pos, end) else RARE
