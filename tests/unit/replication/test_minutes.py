"""Statistics per minute: each broker of each cluster by itself."""

import numpy as np
import pyarrow as pa

from pipelines.replication import replay
from pipelines.replication.term.constants import bucket_of, first_not_below
from schemas import replication_events
from schemas.minute_stats import BOUNDS_MS, BOUNDS_RECORDS


def test_minutes_of_many_clusters_do_not_mix():
    """More clusters than one byte can number."""
    row = {
        "source_id": "broker-1/replication.log", "source_epoch": 0, "source_seq": 0, "seq": 0,
        "ts": 1_795_000_000_000_000,
        "broker_id": 1, "event_type": "leader", "topic": "orders", "partition": 0, "leader_epoch": 0, "leo": 0, "hw": 0,
        "isr": [1], "level": 3,
    }  # fmt: skip
    clusters = [f"cluster-{k}" for k in range(300)]
    events = pa.Table.from_pylist([row | {"cluster": name} for name in clusters], schema=replication_events.ARROW)
    telemetry = [r for r in replay(events).minute_stats.to_pylist() if dict(r["counts"]).get("events")]
    assert sorted(r["cluster"] for r in telemetry) == sorted(clusters)
    assert {(dict(r["counts"])["events"], r["minute"].timestamp()) for r in telemetry} == {
        (1, 1_795_000_000 // 60 * 60)
    }


def test_a_rejected_row_from_before_1970_counts_in_its_own_minute():
    row = {
        "cluster": "c", "source_id": "broker-1/replication.log", "source_epoch": 0, "source_seq": 0, "seq": 0,
        "ts": 1_795_000_000_000_000,
        "broker_id": 1, "event_type": "leader", "topic": "orders", "partition": 0, "leader_epoch": 0, "leo": 0, "hw": 0,
        "isr": [1], "level": 3,
    }  # fmt: skip
    early = row | {"ts": -90_000_000, "event_type": "append", "leader_leo": 1, "source_seq": 1, "seq": 1}
    facts = replay(pa.Table.from_pylist([row, early], schema=replication_events.ARROW))
    assert facts.quarantine.num_rows == 1
    telemetry = {r["minute"].timestamp(): dict(r["counts"]).get("events") for r in facts.minute_stats.to_pylist()}
    assert telemetry == {-120: 1, 1_795_000_000 // 60 * 60: 1}


def test_a_value_falls_into_the_bucket_of_the_first_bound_that_is_not_below_it():
    for bounds in (np.array(BOUNDS_MS) * 1000, np.array(BOUNDS_RECORDS)):
        ordered = bounds.astype(np.int64)
        for value in [-1, 0, *(ordered + 1).tolist(), *ordered.tolist(), *(ordered - 1).tolist(), 1 << 61]:
            bucket = int(np.searchsorted(ordered, value))
            assert (bucket_of(ordered, value), first_not_below(ordered, value)) == (bucket, bucket)
