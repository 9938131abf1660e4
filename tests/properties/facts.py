"""Facts as readers of a lake see them, and what two of them differ in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import pyarrow as pa

from pipelines.replication import Facts, Reconstructor, Rules
from pipelines.replication.events.sharding import assign
from pipelines.replication.telemetry.coverage import coverage
from tests.properties.lakes import GRACE_MS, Row, is_behind
from tests.unit.replication.bronze import events_of

RULES = Rules(lag_max_ms=4000, reorder_grace_ms=GRACE_MS)
Tables = dict[str, Any]

_KEYS = {
    "hw_regressions": ("cluster", "regression_id"),
    "isr_changes": ("cluster", "topic", "topic_id", "partition", "partition_epoch"),
    "coverage": ("cluster", "source_id", "source_epoch", "kind", "from_ts"),
}
_REVISIONS = {"coverage": "to_ts"}
_UNSEEN = ("batch_id", "quarantined_at", "revision")


def as_read(facts: Facts) -> Tables:
    """By table how often it has each row: of each key the last revision, minutes and histograms added up."""
    tables = facts.tables()
    found: Tables = {name: Counter(map(_text, _last(name, rows.to_pylist()))) for name, rows in tables.items()}
    found["minute_stats"] = _minutes(tables["minute_stats"].to_pylist())
    return found


def _text(row: Row) -> str:
    return repr(sorted((name, value) for name, value in row.items() if name not in _UNSEEN))


def _last(name: str, rows: list[Row]) -> list[Row]:
    """Of each key the row with the highest revision; a change without an epoch is told apart by its time."""
    if name not in _KEYS:
        return rows
    last: dict[tuple[Any, ...], Row] = {}
    revision = _REVISIONS.get(name, "revision")
    for row in rows:
        key = (*(row[column] for column in _KEYS[name]), row["ts"] if row.get("partition_epoch", 0) is None else None)
        if key not in last or row[revision] >= last[key][revision]:
            last[key] = row
    return list(last.values())


def _minutes(rows: list[Row]) -> Counter[Any]:
    total: Counter[Any] = Counter()
    for row in rows:
        place = row["cluster"], row["broker_id"], row["minute"]
        total.update({(*place, name): count for name, count in row["counts"]})
        for name in ("append_to_hw", "lag"):
            total.update({(*place, name, k): count for k, count in enumerate(row[name] or ())})
    return Counter({name: count for name, count in total.items() if count})


def late_clusters(tables: Tables) -> set[str]:
    """The clusters of which a row came too late."""
    rows = [row for row in tables["telemetry_gaps"] if "('kind', 'late')" in row]
    return {row.partition("('cluster', '")[2].partition("'")[0] for row in rows}


def differences(one: Tables, other: Tables, but: Collection[str] = ()) -> dict[str, list[str]]:
    """What only one of the two has, per table, `but` of these clusters: empty where they are the same."""
    found = {}
    for name in one:
        entries = {key for key in one[name] | other[name] if one[name][key] != other[name][key]}
        entries = {key for key in entries if not any(f"'{cluster}'" in str(key) for cluster in but)}
        if entries:
            found[name] = [f"{one[name][key]} / {other[name][key]}: {key}" for key in sorted(entries, key=str)]
    return found


def _covered(rows: list[Row], closings: list[Row]) -> pa.Table:
    """What rows cover; runs end where closing rows do, as the planner of batches promises."""
    parts: dict[int, list[Row]] = {}
    for row in rows:
        parts.setdefault(sum(is_behind(row, closing) for closing in closings), []).append(row)
    return pa.concat_tables([coverage(events_of(part)) for part in parts.values()] or [coverage(events_of([]))])


def reconstruct(batches: Sequence[list[Row]], buckets: int = 1, restart: bool = False) -> Tables:
    """What comes of these batches in so many buckets, with a restart from the snapshot after each."""
    shards = [Reconstructor(RULES, bucket, buckets) for bucket in range(buckets)]
    facts = []
    closings = [row for rows in batches for row in rows if row.get("closes") is not None]
    for number, rows in enumerate(batches):
        events = events_of(rows)
        of, covered = assign(events, buckets), _covered(rows, closings)
        for bucket, shard in enumerate(shards):
            mine = events.filter(pa.array((of == bucket) | (of < 0))) if buckets > 1 else events
            facts.append(shard.update(mine, covered, batch_id=number))
        if restart:
            shards = [Reconstructor.restore(shard.snapshot()) for shard in shards]
    return as_read(Facts.concat([*facts, *(shard.finish(len(batches)) for shard in shards)]))
