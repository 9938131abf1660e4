"""The LEOs of all replicas that a "Skipping update high watermark" line prints."""

from __future__ import annotations

from typing import Any

from generators.brokerlogs.events.event_rows import UNKNOWN
from generators.brokerlogs.scanning.arrays import Array, compiled
from generators.brokerlogs.scanning.byte_text import find, integer, literal

REPLICA = literal("replica ")
OFFSET = literal("(offset=")


@compiled
def leo_of(buf: Array, line: Any, replica: int) -> int:
    """LEO of a replica in `replica n: (offset=o, …), …`, UNKNOWN if it is not among them."""
    pos = find(buf, line.a, line.end, REPLICA)
    while pos >= 0:
        named, pos = integer(buf, pos, line.end)
        at = find(buf, pos, line.end, OFFSET) if pos >= 0 else -1
        if at < 0:
            break
        if named == replica:
            leo, _ = integer(buf, at, line.end)
            return leo
        pos = find(buf, at, line.end, REPLICA)
    return UNKNOWN
