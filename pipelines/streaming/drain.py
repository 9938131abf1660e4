"""The closing row: makes final what every source of a cluster has told so far."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from generators.lake import append_events, read_events
from schemas import replication_events

SOURCE = "hwmark/drain"


def close_sources(lake: str, storage_options: Mapping[str, str] | None = None) -> int:
    """Appends one closing `progress` row per cluster to bronze, at the largest time told; returns how many."""
    told = read_events(lake, columns=["cluster", "source_id", "ts"], storage_options=storage_options)
    if not len(told):
        return 0
    told = told.append_column("closing", pc.cast(pc.equal(told["source_id"], SOURCE), pa.int64()))
    clusters = told.group_by("cluster").aggregate([("ts", "max"), ("closing", "sum")]).sort_by("cluster")
    rows = [closing_row(row["cluster"], row["ts_max"], row["closing_sum"]) for row in clusters.to_pylist()]
    version = sum(row["source_seq"] for row in rows)
    append_events(
        lake,
        pa.Table.from_pylist(rows, replication_events.ARROW),
        app_id=SOURCE,
        version=version,
        storage_options=storage_options,
    )
    return len(rows)


def closing_row(cluster: str, ts: object, number: int) -> dict[str, Any]:
    """The row that tells the reconstruction to make final what it was told until `ts`."""
    return {
        "cluster": cluster,
        "source_id": SOURCE,
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
