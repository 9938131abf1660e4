"""Events by hand: one leading broker and one follower, a few partitions, each row once."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa

from schemas import replication_events

START = datetime(2026, 1, 1, tzinfo=UTC)
SOURCE = {"cluster": "main", "source_id": "broker-1/replication.log", "source_epoch": 0, "broker_id": 1, "level": 3}


def history(partitions=5, rounds=20):
    """A leader per partition, then rounds of append, fetch and HW, with a progress row after each round."""
    rows = [on(p, "leader", 0, leader_epoch=0, leo=0, hw=0, isr=[1, 2], partition_epoch=0) for p in range(partitions)]
    for n in range(rounds):
        at = 1000 * (n + 1)
        for p in range(partitions):
            rows.append(on(p, "append", at, leader_leo=n + 1))
            rows.append(on(p, "fetch", at + 10, replica_id=2, leo=n + 1, leader_leo=n + 1))
            rows.append(on(p, "hw", at + 10, replica_id=1, hw=n + 1))
        rows.append({"event_type": "progress", "ts": START + timedelta(milliseconds=at + 500), "partition": -1})
    return numbered(rows)


def on(partition, event_type, ms, **columns):
    place = {"topic": "clicks", "topic_id": "a" * 22, "partition": partition, "leader_id": 1, "leader_epoch": 0}
    return place | {"event_type": event_type, "ts": START + timedelta(milliseconds=ms)} | columns


def numbered(rows):
    """The rows of one source with their numbers, as a table in bronze schema."""
    seq = {}
    whole = []
    for source_seq, row in enumerate(rows):
        series = (row.get("topic"), row["partition"])
        seq[series] = seq.get(series, -1) + 1
        whole.append(SOURCE | {"source_seq": source_seq, "seq": seq[series]} | row)
    return pa.Table.from_pylist(whole, replication_events.ARROW)
