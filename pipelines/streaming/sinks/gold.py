"""Minutes of clusters and brokers, added up again from the mergeable partials of `silver/minute_stats`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial, reduce
from operator import or_
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.lake.lake import Lake, declared
from pipelines.lake.table import committing, dataset, overwrite
from pipelines.streaming.tables import at_once, has_batch
from schemas.minute_stats import BOUNDS_MS, BOUNDS_RECORDS

if TYPE_CHECKING:
    import pyarrow.dataset as ds

WHO = {"cluster_minute": ("cluster",), "broker_minute": ("cluster", "broker_id")}
"""The minute tables, and whose minute a row of each is."""
GAUGES = {
    "partitions": "partitions_change",
    "under_replicated": "under_replicated_change",
    "under_min_isr": "under_min_isr_change",
    "out_of_sync_replicas": "out_of_sync_change",
}
"""Columns that stand for the end of a minute, and the counts whose running sum they are."""
TALLIES = {"shrinks": "shrink:", "expands": "expand:", "regressions": "regression:"}

Touched = dict[str, int]
Who = tuple[Any, ...]
I64 = npt.NDArray[np.int64]


def touch(touched: Touched, partials: pa.Table) -> None:
    """Lowers each cluster's first touched minute (microseconds since 1970) to that of `partials`."""
    first = partials.select(["cluster", "minute"]).group_by("cluster").aggregate([("minute", "min")])
    for cluster, minute in zip(
        first["cluster"].to_pylist(), first["minute_min"].cast(pa.int64()).to_pylist(), strict=True
    ):
        touched[cluster] = min(minute, touched.get(cluster, minute))


def earliest(all_touched: Iterable[Touched]) -> Touched:
    """The first touched minute of each cluster over several tasks."""
    first: Touched = {}
    for touched in all_touched:
        for cluster, minute in touched.items():
            first[cluster] = min(minute, first.get(cluster, minute))
    return first


def add_minutes(lake: Lake, touched: Touched, query_id: str, batch_id: int) -> None:
    """Writes anew every minute from the first touched one on: a gauge that changed there changes all later ones."""
    kinds = [kind for kind in WHO if not has_batch(lake.open(kind), query_id, batch_id)]
    if not touched or not kinds:
        return
    partials = lake.rows("minute_stats").to_table(filter=_since(touched))
    at_once(
        partial(committing, partial(_replace_minutes, lake, kind, partials, touched, {query_id: batch_id}))
        for kind in kinds
    )


def _replace_minutes(lake: Lake, kind: str, partials: pa.Table, touched: Touched, versions: Mapping[str, int]) -> None:
    """Writes the touched minutes of one table anew, where any of them changed."""
    table = lake.open(kind)
    before = dataset(table)
    rows = minutes(partials, kind, _gauges_before(before, touched, WHO[kind]))
    keys = [(name, "ascending") for name in (*WHO[kind], "minute")]
    written = before.to_table(rows.column_names, filter=_since(touched)).cast(rows.schema)
    if not written.sort_by(keys).equals(rows.sort_by(keys)):
        overwrite(table, rows, _sql(touched), versions)


def minutes(partials: pa.Table, kind: str, before: Mapping[Who, Mapping[str, int]]) -> pa.Table:
    """Rows of a minute table from all partials (`silver/minute_stats`) of its minutes; `before`: gauges until then.

    A broker whose gauges are not all zero has a row in every minute of its cluster.
    """
    who = WHO[kind]
    counts = summed_counts(partials, who)
    latencies = summed_histograms(partials, "append_to_hw", len(BOUNDS_MS) + 1, who)
    lags = summed_histograms(partials, "lag", len(BOUNDS_RECORDS) + 1, who)
    gauges = {name: dict(values) for name, values in before.items()}
    rows = []
    for minute, present in _grid(counts, gauges):
        for name in present:
            held = gauges.setdefault(name, dict.fromkeys(GAUGES, 0))
            sums = counts.get((name, minute), {})
            for gauge, change in GAUGES.items():
                held[gauge] += sums.get(change, 0)
            rows.append(
                dict(zip(who, name, strict=True))
                | {"minute": minute, **held}
                | _tallies(sums)
                | _percentiles(latencies.get((name, minute)), lags.get((name, minute)))
            )
    return pa.Table.from_pylist(rows, declared(kind).arrow())


def _grid(
    counts: Mapping[tuple[Who, datetime], Any], gauges: Mapping[Who, Mapping[str, int]]
) -> Iterator[tuple[datetime, list[Who]]]:
    """Each cluster's minutes in order, and who has a row in each."""
    active: dict[tuple[str, datetime], set[Who]] = defaultdict(set)
    for name, minute in counts:
        active[name[0], minute].add(name)
    for cluster, minute in sorted(active):
        standing = {n for n, values in gauges.items() if n[0] == cluster and any(values.values())}
        yield minute, sorted(active[cluster, minute] | standing)


def summed_counts(partials: pa.Table, who: Sequence[str]) -> dict[tuple[Who, datetime], dict[str, int]]:
    """Summed counts by name for everyone's minutes, those without counts included."""
    summed: dict[tuple[Who, datetime], dict[str, int]] = {}
    for row in partials.group_by([*who, "minute"]).aggregate([]).to_pylist():
        summed[_key(row, who)] = {}
    maps = partials["counts"].combine_chunks()
    flat = _at(partials, who, maps).append_column("name", _values(maps, maps.keys))
    flat = flat.append_column("value", _values(maps, maps.items))
    for row in flat.group_by([*who, "minute", "name"]).aggregate([("value", "sum")]).to_pylist():
        summed[_key(row, who)][row["name"]] = row["value_sum"]
    return summed


def summed_histograms(
    partials: pa.Table, column: str, size: int, who: Sequence[str]
) -> dict[tuple[Who, datetime], I64]:
    """Summed histograms for everyone's minutes that have one."""
    lists = partials[column].combine_chunks()
    lengths = np.diff(lists.offsets)
    within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    minutes, of_row = _minutes_of(partials, who)
    sums = np.zeros((len(minutes), size), np.int64)
    np.add.at(sums, (np.repeat(of_row, lengths), within), _values(lists, lists.values).to_numpy())
    return {minutes[i]: sums[i] for i in np.unique(of_row[lengths > 0])}


def _minutes_of(partials: pa.Table, who: Sequence[str]) -> tuple[list[tuple[Who, datetime]], I64]:
    """Everyone's minutes, and which of them each row is of."""
    codes = np.zeros(len(partials), np.int64)
    for name in (*who, "minute"):
        values = partials[name].combine_chunks().dictionary_encode()
        codes = codes * len(values.dictionary) + values.indices.to_numpy()
    _, first, of_row = np.unique(codes, return_index=True, return_inverse=True)
    rows = partials.select([*who, "minute"]).take(pa.array(first)).to_pylist()
    return [_key(row, who) for row in rows], of_row


def _at(partials: pa.Table, who: Sequence[str], nested: pa.ListArray | pa.MapArray) -> pa.Table:
    """Whose minute each element of a list or map column belongs to."""
    row = np.repeat(np.arange(len(nested)), np.diff(nested.offsets))
    return partials.select([*who, "minute"]).take(pa.array(row))


def _values(nested: pa.ListArray | pa.MapArray, child: pa.Array) -> pa.Array:
    first, last = nested.offsets[0].as_py(), nested.offsets[-1].as_py()
    return child if len(child) == last - first else child.slice(first, last - first)


def _key(row: Mapping[str, Any], who: Sequence[str]) -> tuple[Who, datetime]:
    return tuple(row[name] for name in who), row["minute"]


def _tallies(sums: Mapping[str, int]) -> dict[str, Any]:
    by_word = {
        column: {name.removeprefix(prefix): n for name, n in sorted(sums.items()) if name.startswith(prefix)}
        for column, prefix in TALLIES.items()
    }
    return by_word | {name: sums.get(name, 0) for name in ("events", "late", "gaps")}


def _percentiles(latency: I64 | None, lag: I64 | None) -> dict[str, float | None]:
    return {
        "append_to_hw_p50_ms": percentile(latency, BOUNDS_MS, 0.5),
        "append_to_hw_p95_ms": percentile(latency, BOUNDS_MS, 0.95),
        "append_to_hw_p99_ms": percentile(latency, BOUNDS_MS, 0.99),
        "p95_lag_records": percentile(lag, BOUNDS_RECORDS, 0.95),
        "max_lag_records": percentile(lag, BOUNDS_RECORDS, 1.0),
    }


def percentile(histogram: I64 | None, bounds: Sequence[float], share: float) -> float | None:
    """The upper bound of the bucket that holds this share of the values; None: no values, or beyond the last bound."""
    total = 0 if histogram is None else int(histogram.sum())
    if histogram is None or not total:
        return None
    bucket = int(np.searchsorted(np.cumsum(histogram), np.ceil(share * total)))
    return bounds[bucket] if bucket < len(bounds) else None


def _gauges_before(rows: ds.Dataset, touched: Touched, who: Sequence[str]) -> dict[Who, dict[str, int]]:
    """Gauges in the last minute that each cluster has before its first touched one."""
    columns = [*who, "minute", *GAUGES]
    before = rows.to_table(columns=columns, filter=_until(touched))
    last = before.group_by("cluster").aggregate([("minute", "max")])
    ends = dict(zip(last["cluster"].to_pylist(), last["minute_max"].to_pylist(), strict=True))
    final = before.filter(pc.is_in(before["minute"], pa.array(list(ends.values()), before["minute"].type))).to_pylist()
    return {_key(r, who)[0]: {g: r[g] or 0 for g in GAUGES} for r in final if r["minute"] == ends[r["cluster"]]}


def _since(touched: Touched) -> ds.Expression:
    return _any(touched, lambda minute, first: minute >= first)


def _until(touched: Touched) -> ds.Expression:
    return _any(touched, lambda minute, first: minute < first)


def _any(touched: Touched, compare: Callable[[ds.Expression, pa.Scalar], ds.Expression]) -> ds.Expression:
    import pyarrow.dataset as ds

    kind = declared("minute_stats").arrow().field("minute").type
    each = [(ds.field("cluster") == c) & compare(ds.field("minute"), pa.scalar(m, kind)) for c, m in touched.items()]
    return reduce(or_, each)


def _sql(touched: Touched) -> str:
    """The same as `_since` for the Rust side."""
    each = []
    for cluster, minute in touched.items():
        since = datetime.fromtimestamp(minute / 1e6, UTC).isoformat()
        name = cluster.replace("'", "''")
        each.append(
            f"(cluster = '{name}' AND minute >= arrow_cast('{since}', 'Timestamp(Microsecond, Some(\"UTC\"))'))"
        )
    return " OR ".join(each)
