"""The lines of a leader's shrink: an independent check of the computed last-caught-up times."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pyarrow as pa

from generators.brokerlogs.events.source_state import split_partition_name

SHRINKS = pa.schema(
    [
        ("ts", pa.timestamp("us", "UTC")),
        ("broker_id", pa.int32()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("replica_id", pa.int32()),
        ("leo", pa.int64()),
        ("last_caught_up_ts", pa.timestamp("us", "UTC")),
        ("hw", pa.int64()),
        ("leader_leo", pa.int64()),
    ]
)
"""One replica found out of sync: its LEO and when it was last caught up, beside the leader's HW and LEO."""
_LINE = re.compile(
    rb"^(?:(\d{13})\||\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\]).*?\[Partition (\S+) broker=(\d+)\] "
    rb"Shrinking ISR from .*?"
    rb"\(highWatermark: (-?\d+), endOffset: (-?\d+)\)\. Out of sync replicas: (.*)",
    re.MULTILINE,
)
_REPLICA = re.compile(rb"\(brokerId: (\d+), endOffset: (-?\d+), lastCaughtUpTimeMs: (-?\d+)\)")


def out_of_sync_replicas(data: bytes) -> pa.Table:
    """Every out-of-sync replica of every `Shrinking ISR` line, in the schema SHRINKS; stock times are read as UTC."""
    rows = [
        (_micros(m), int(m[4]), *place, int(r[1]), int(r[2]), int(r[3]) * 1000, int(m[5]), int(m[6]))
        for m in _LINE.finditer(data)
        if (place := split_partition_name(m[3].decode("utf-8", "replace")))
        for r in _REPLICA.finditer(m[7])
    ]
    return pa.Table.from_pylist([dict(zip(SHRINKS.names, row, strict=True)) for row in rows], schema=SHRINKS)


def _micros(line: re.Match[bytes]) -> int:
    if line[1]:
        return int(line[1]) * 1000
    said = datetime.strptime(line[2].decode(), "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC)
    return int(said.timestamp() * 1000) * 1000
