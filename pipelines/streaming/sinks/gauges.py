"""The tables of brokers and replicas: each bucket reports a share, and the sink merges the shares."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.lake.lake import Lake
from pipelines.streaming.source.blobs import decode, encode
from pipelines.streaming.tables import BROKERS, LAGS
from schemas import broker_lag, brokers, replica_lag

Shares = dict[str, str]
"""The rows of some buckets by table, as text."""
Row = dict[str, Any]

_LEAST, _LARGEST = ("level",), ("ts", "lag_records", "lag_ms", "last_reported_ts")
_STATED = (
    "rack",
    "quorum",
    "quorum_since",
    "state",
    "state_ts",
    "since",
    "reason",
    "witness",
    "broker_epoch",
    "restarting_since",
)
"""The columns that every bucket reads of a broker."""


def shares(tables: Mapping[str, Sequence[pa.Table]]) -> Shares:
    """The share of a task from the rows of its buckets; those of a single bucket need no merging."""
    whole = {kind: parts[0] if len(parts) == 1 else merge(kind, parts) for kind, parts in tables.items()}
    return {kind: b64encode(encode(rows)).decode() for kind, rows in whole.items()}


def merged(all_shares: Iterable[Shares]) -> dict[str, pa.Table]:
    """The whole tables, merged from the shares of all tasks."""
    parts: dict[str, list[pa.Table]] = {kind: [] for kind in (BROKERS, *LAGS)}
    for share in all_shares:
        for kind, text in share.items():
            parts[kind].append(decode(b64decode(text)))
    return {kind: merge(kind, tables) for kind, tables in parts.items()}


def merge(kind: str, parts: Iterable[pa.Table]) -> pa.Table:
    """One table, merged from the rows of several buckets."""
    schema = {BROKERS: brokers.ARROW, "broker_lag": broker_lag.ARROW, "replica_lag": replica_lag.ARROW}[kind]
    rows = pa.concat_tables([schema.empty_table(), *parts])
    if kind == "replica_lag":
        return _worst(rows)
    together: dict[tuple[str, int], list[Row]] = {}
    for row in rows.to_pylist(maps_as_pydicts="strict"):
        together.setdefault((row["cluster"], row["broker_id"]), []).append(row)
    put_together = _broker if kind == BROKERS else _lag
    return pa.Table.from_pylist([put_together(each) for _, each in sorted(together.items())], schema)


def news(rows: pa.Table, before: Mapping[str, Any]) -> pa.Table:
    """The rows of clusters that have advanced; `before` has the time up to which each was reconstructed last time."""
    clusters = rows["cluster"].to_pylist()
    went_on = [before.get(c) is None or ts > before[c] for c, ts in zip(clusters, rows["ts"].to_pylist(), strict=True)]
    return rows.filter(pa.array(went_on, pa.bool_()))


def reconstructed_to(lake: Lake) -> dict[str, Any]:
    """The time up to which each cluster was reconstructed when `gold/brokers` was last written."""
    known = lake.read(BROKERS, pa.schema([brokers.ARROW.field("cluster"), brokers.ARROW.field("ts")]))
    return {row["cluster"]: row["ts"] for row in known.to_pylist()}


def _broker(rows: list[Row]) -> Row:
    """One broker's row from those of several buckets; a count that no bucket knows is unknown."""
    first = rows[0]
    apart = {"cluster": first["cluster"], "broker_id": first["broker_id"]}
    apart |= {name: _of(rows, name, min) for name in _LEAST} | {name: _of(rows, name, max) for name in _LARGEST}
    apart |= {name: next((row[name] for row in rows if row[name] is not None), None) for name in _STATED}
    holds_back_of: Counter[str] = Counter()
    for row in rows:
        holds_back_of.update(row["holds_back_of"] or {})
    apart["holds_back_of"] = sorted(holds_back_of.items())
    return {name: apart[name] if name in apart else _of(rows, name, sum) for name in brokers.ARROW.names}


def _lag(rows: list[Row]) -> Row:
    """The lag of one broker from the rows of several buckets."""
    first = rows[0]
    apart = {"cluster": first["cluster"], "broker_id": first["broker_id"]}
    apart |= {name: _of(rows, name, max) for name in ("ts", "lag_records", "lag_ms")}
    apart |= {name: _of(rows, name, min) for name in _LEAST}
    return {name: apart[name] if name in apart else _of(rows, name, sum) for name in broker_lag.ARROW.names}


def _of(rows: list[Row], name: str, together: Callable[[list[Any]], Any]) -> Any:
    known = [row[name] for row in rows if row[name] is not None]
    return together(known) if known else None


def _worst(rows: pa.Table) -> pa.Table:
    """The worst replicas of each cluster, in the order of `facts.follower_lag.worst`."""
    unknown = pc.is_null(rows["lag_records"])
    keys = [("cluster", "ascending"), ("unknown", "descending"), ("lag_records", "descending")]
    keys += [("lag_ms", "descending"), *((name, "ascending") for name in ("topic", "partition", "replica_id"))]
    ordered = rows.append_column("unknown", unknown).sort_by(keys).drop_columns("unknown")
    counted: Counter[str] = Counter()
    kept = []
    for cluster in ordered["cluster"].to_pylist():
        counted[cluster] += 1
        kept.append(counted[cluster] <= replica_lag.WORST)
    return ordered.filter(pa.array(kept, pa.bool_()))
