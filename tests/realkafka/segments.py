"""Where a log ends, read from its files: what no client can ask of a broker that is dead."""

from __future__ import annotations

import struct
from pathlib import Path

from tests.realkafka.load import Place

BATCH_HEAD = struct.Struct(">qi")
"""baseOffset, and the length of what follows."""
LAST_OFFSET_DELTA = struct.Struct(">i")
LAST_OFFSET_DELTA_AT = 23


def log_end(data: Path, place: Place) -> int:
    """The offset that the next record of a partition would have, by the whole batches in its last segment."""
    last = max((data / f"{place[0]}-{place[1]}").glob("*.log"))
    content, at, end = last.read_bytes(), 0, int(last.stem)
    while at + LAST_OFFSET_DELTA_AT + LAST_OFFSET_DELTA.size <= len(content):
        base, length = BATCH_HEAD.unpack_from(content, at)
        if length <= 0 or at + BATCH_HEAD.size + length > len(content):
            break
        end = base + LAST_OFFSET_DELTA.unpack_from(content, at + LAST_OFFSET_DELTA_AT)[0] + 1
        at += BATCH_HEAD.size + length
    return end
