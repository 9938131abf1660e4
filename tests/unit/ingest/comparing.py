"""What two readings of the same logs have to have in common."""

import pyarrow as pa

from schemas import replication_events

NUMBERS = {"source_epoch", "source_seq", "seq"}


def in_order(events: pa.Table) -> pa.Table:
    """Events by source and number."""
    return events.sort_by([(name, "ascending") for name in ("source_id", "source_epoch", "source_seq")])


def reported(events: pa.Table) -> list[dict]:
    """All rows of the sources, in their order, without progress (which depends on when they were read)."""
    rows = in_order(events).select([name for name in replication_events.ARROW.names if name not in NUMBERS])
    return [row for row in rows.to_pylist() if row["event_type"] != "progress"]


def numbers_without_holes(events: pa.Table) -> bool:
    """Whether source_seq and seq are contiguous from 0, each number once."""
    follows: dict[tuple, int] = {}
    names = ("source_id", "source_epoch", "source_seq", "seq", "topic", "partition")
    for source, epoch, number, seq, topic, partition in zip(
        *(in_order(events)[name].to_pylist() for name in names), strict=True
    ):
        for key, value in (((source, epoch), number), ((source, epoch, topic, partition), seq)):
            if follows.setdefault(key, 0) != value:
                return False
            follows[key] = value + 1
    return True
