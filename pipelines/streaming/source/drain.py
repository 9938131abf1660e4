"""The closing row: makes final what every source of a cluster has reported so far."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.lake.bronze import append_events, read_events
from pipelines.lake.engines import other_engine
from pipelines.lake.lake import Lake
from pipelines.streaming.source.closings import closing_path, closings, count_closings
from schemas import replication_events
from schemas.replication_events import DRAIN


def close_sources(lake: Lake) -> int:
    """Appends one closing `progress` row per cluster to bronze, at the largest time reported; returns how many.

    Where another engine writes bronze the rows go into a file of the job's own, which it reads last.
    """
    events = read_events(lake.root, columns=["cluster", "source_id", "ts"], storage_options=lake.storage_options)
    if not len(events):
        return 0
    events = events.append_column("closing", pc.cast(pc.equal(events["source_id"], DRAIN), pa.int64()))
    clusters = events.group_by("cluster").aggregate([("ts", "max"), ("closing", "sum")]).sort_by("cluster")
    beside = closings(lake)
    before = [row["cluster"] for row in beside]
    rows = [
        closing_row(row["cluster"], row["ts_max"], row["closing_sum"] + before.count(row["cluster"]))
        for row in clusters.to_pylist()
    ]
    closing = pa.Table.from_pylist(rows, replication_events.ARROW)
    if other_engine(lake.open(replication_events.TABLE)) is None:
        version = sum(row["source_seq"] for row in rows)
        append_events(lake.root, closing, app_id=DRAIN, version=version, storage_options=lake.storage_options)
    else:
        import pyarrow.parquet as pq

        out = pa.BufferOutputStream()
        pq.write_table(closing, out)
        path = closing_path(count_closings(lake))
        lake.write_durably(path, out.getvalue().to_pybytes())
    return len(rows)


def closing_row(cluster: str, ts: object, number: int) -> dict[str, Any]:
    """The row by which the reconstruction makes final what was reported until `ts`."""
    return {
        "cluster": cluster,
        "source_id": DRAIN,
        "source_epoch": 0,
        "source_seq": number,
        "seq": number,
        "ts": ts,
        "broker_id": -1,
        "event_type": "progress",
        "partition": -1,
        "level": 0,
        "detail": "closed",
    }
