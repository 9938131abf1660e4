"""The closing row, which makes all reports of a cluster's sources final."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.lake.bronze import append_events, committed
from pipelines.lake.engines import other_engine
from pipelines.lake.lake import Lake
from pipelines.replication.compiled.types import NEVER
from pipelines.streaming.source.bronze_file import read
from pipelines.streaming.source.bronze_log import BronzeLog
from pipelines.streaming.source.closings import closing_path, closings, count_closings
from schemas import replication_events
from schemas.replication_events import CLOSED, DRAIN, FIRST, LAST

_KEY = ["cluster", "source_id", "source_epoch"]


class DrainSkippedError(RuntimeError):
    """Raised if the closing rows are not in bronze, since another writer took their version."""


def close_sources(lake: Lake) -> int:
    """Append one closing `progress` row per cluster to bronze, at the largest reported time; returns their number.

    If another engine writes bronze, the rows go into a file of the job's own, which it reads last. Raises
    DrainSkippedError if they could not be appended.
    """
    beside = closings(lake)
    clusters, last = _last_rows(lake)
    version = committed(lake.root, [DRAIN], lake.storage_options)[DRAIN]
    # Retention removes closing rows from bronze, but not their writer's version.
    number = 1 + max(-1 if version is None else version, last, *(row["source_seq"] for row in beside), -1)
    if number >= NEVER:
        raise DrainSkippedError(
            f"a row of {DRAIN} in bronze of lake {lake.root} has number {number - 1}, the last there is: no later "
            "closing row counts; take it out, and `hwmark run --once --rebuild`"
        )
    rows = [closing_row(cluster, ts, number, closes) for cluster, (ts, closes) in sorted(clusters.items())]
    if not rows:
        return 0
    closing = pa.Table.from_pylist(rows, replication_events.ARROW)
    if other_engine(lake.open(replication_events.TABLE)) is None:
        if not append_events(lake.root, closing, app_id=DRAIN, version=number, storage_options=lake.storage_options):
            raise DrainSkippedError(
                f"lake {lake.root} has closing rows {number} already, which another `hwmark run --drain` has written: "
                "let that one end, then run it again"
            )
    else:
        import pyarrow.parquet as pq

        out = pa.BufferOutputStream()
        pq.write_table(closing, out)
        path = closing_path(count_closings(lake))
        lake.write_durably(path, out.getvalue().to_pybytes())
    return len(rows)


Closes = dict[str, tuple[int, int]]
"""The last row, (source_epoch, source_seq), by source."""


def _last_rows(lake: Lake) -> tuple[dict[str, tuple[datetime, Closes]], int]:
    """The largest time and last rows by cluster, and the largest number of a closing row (-1: none).

    Read file by file, with names as dictionaries. Rows with a refused time or number do not count.
    """
    clusters, number = dict[str, tuple[datetime, Closes]](), -1
    ts, seq = pc.field("ts"), pc.field("source_seq")
    usable = (ts >= FIRST) & (ts <= LAST) & (seq >= 0) & (seq < NEVER)
    log = BronzeLog(lake.uri(replication_events.TABLE), lake.storage_options)
    now = log.latest()
    for file in log.files(now, now):
        for events in read(log, file.part, columns=[*_KEY, "source_seq", "ts"]):
            for row in _aggregated(events.filter(usable)):
                at, source = row["ts_max"], (row["source_epoch"], row["source_seq_max"])
                if row["source_id"] == DRAIN:
                    number = max(number, row["source_seq_max"])
                elif None not in row.values():
                    newest, closes = clusters.setdefault(row["cluster"], (at, {}))
                    closes[row["source_id"]] = max(closes.get(row["source_id"], source), source)
                    clusters[row["cluster"]] = max(newest, at), closes
    return clusters, number


def _aggregated(rows: pa.Table) -> Iterable[Mapping[str, Any]]:
    """The last number and the largest time of these rows by source."""
    groups = rows.unify_dictionaries().group_by(_KEY).aggregate([("source_seq", "max"), ("ts", "max")])
    found: Iterable[Mapping[str, Any]] = groups.to_pylist()
    return found


def closing_row(cluster: str, ts: object, number: int, closes: Closes | None = None) -> dict[str, Any]:
    """The row that makes reports until `ts` final: up to the rows in `closes`, or all rows before it."""
    names = replication_events.ARROW.field("closes").type.value_type.names
    last = None if closes is None else [dict(zip(names, (s, *row), strict=True)) for s, row in sorted(closes.items())]
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
        "detail": CLOSED,
        "closes": last,
    }
