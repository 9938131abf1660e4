"""The minute tables of clusters and brokers, updated from the mergeable partials of `silver/minute_stats`.

A batch changes the minutes of its partials, and all later ones by the change of a gauge. Gauges go on from stored
rows, never from the whole history, the beginning of which may have been removed by retention.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.lake.data_file import write_file
from pipelines.lake.lake import Lake, declared
from pipelines.lake.table import Replaced, committing, replace_files, with_plain_text
from pipelines.streaming.sinks.partials import Who, moves_within, summed_counts, summed_histograms
from pipelines.streaming.sinks.spans import Moves, shift_spans, span_columns
from pipelines.streaming.tables import at_once, has_batch
from schemas.minute_stats import BOUNDS_MS, BOUNDS_RECORDS, SPANS

if TYPE_CHECKING:
    import pyarrow.dataset as ds

    from pipelines.lake.data_file import Written

WHO = {"cluster_minute": ("cluster",), "broker_minute": ("cluster", "broker_id")}
"""The minute tables, each with the columns that name a minute's owner."""
GAUGES = {
    "partitions": "partitions_change",
    "under_replicated": "under_replicated_change",
    "under_min_isr": "under_min_isr_change",
    "out_of_sync_replicas": "out_of_sync_change",
    "offline": "offline_change",
    "held_back": "held_back_change",
}
"""Gauges at the end of a minute, each with the counts that it sums up."""
TALLIES = {"shrinks": "shrink:", "expands": "expand:", "regressions": "regression:"}
PARTIALS = "minute_stats"
LOOK_BACK_US, WIDER = 300_000_000, 12
"""The time before a new minute in which its predecessor is looked for, and the factor of each further attempt."""
US = pa.timestamp("us", "UTC")
EVER = 1 << 62

I64 = npt.NDArray[np.int64]
Counts = Mapping[tuple[Who, datetime], Mapping[str, int]]
Minutes = dict[str, I64]
"""Some minutes of each cluster, in order (microseconds since 1970)."""


def add_minutes(lake: Lake, files: Sequence[Written], query_id: str, batch_id: int) -> None:
    """Add a batch's partials, from these files, to the minute tables that lack the batch."""
    kinds = [kind for kind in WHO if not has_batch(lake.open(kind), query_id, batch_id)]
    if files and kinds:
        new = _rows(lake, PARTIALS, [file.path for file in files])
        at_once(partial(committing, partial(_add, lake, kind, new, {query_id: batch_id})) for kind in kinds)


def _add(lake: Lake, kind: str, new: pa.Table, versions: Mapping[str, int]) -> None:
    """Replace the rows of changed minutes in the table, if any differs."""
    files, touched = _Files(lake, kind), _by_cluster(new)
    stored = _stored(files, touched, _moved_from(new))
    since = min(_moved_from(new).values(), default=EVER)
    rows = changed(kind, stored, _Files(lake, PARTIALS).rows(_with_first(touched, stored), since=since), new)
    order = [(name, "ascending") for name in (*WHO[kind], "minute")]
    if not stored.filter(_is_in(stored, _by_cluster(rows))).sort_by(order).equals(rows.sort_by(order)):
        replaced, kept = files.without(rows)
        written = [write_file(lake.files(kind), kind, rows.schema, [part]) for part in (kept, rows) if len(part)]
        replace_files(files.table, replaced, written, None, versions)


def changed(kind: str, stored: pa.Table, partials: pa.Table, new: pa.Table) -> pa.Table:
    """All rows of the minutes that a batch changes, in their new state, without those that are all zero.

    `stored`: rows of a minute table, see `_stored`; `partials`: those of the touched minutes, of each cluster's first
    stored minute, and of the minutes after a gauge moves, including the batch's own (`new`).
    """
    who = WHO[kind]
    minutes, within = _by_cluster(new), moves_within(partials, who)
    minutes = _with_moves(minutes, within, _moved_from(new), _by_cluster(stored))
    asked = _with_first(minutes, stored)
    partials = partials.filter(_is_in(partials, asked))
    counted = _Counted(
        within,
        summed_counts(partials, who),
        summed_histograms(partials, "append_to_hw", len(BOUNDS_MS) + 1, who),
        summed_histograms(partials, "lag", len(BOUNDS_RECORDS) + 1, who),
    )
    moves, parts = summed_counts(new, who), [declared(kind).arrow().empty_table()]
    for cluster, touched in minutes.items():
        own = {key: counts for key, counts in moves.items() if key[0][0] == cluster}
        course = _Course(who, stored.filter(pc.equal(stored["cluster"], cluster)), touched, own)
        if course.began(counted.counts).any():  # retention removed the earlier minutes, which are not written again
            touched = touched[touched >= course.known[0]]
        later = np.setdiff1d(np.intersect1d(course.minutes[course.moved.any(axis=(0, 2))], course.known), touched)
        made = [course.row(counted, name, minute) for minute in touched for name in course.names]
        made += course.without_row(later)
        parts += [course.moved_rows(later), pa.Table.from_pylist([row for row in made if row], parts[0].schema)]
    return pa.concat_tables(parts)


class _Counted(NamedTuple):
    """Summed partials of everyone's minutes."""

    within: Mapping[tuple[Who, datetime], Moves]
    counts: Counts
    latencies: dict[tuple[Who, datetime], I64]
    lags: dict[tuple[Who, datetime], I64]


NOTHING = _Counted({}, {}, {}, {})


class _Course:
    """The gauges of one cluster by name and minute: their stored values, and the batch's change so far (`moved`)."""

    def __init__(self, who: Sequence[str], stored: pa.Table, touched: I64, moves: Counts) -> None:
        self._who, self._stored = who, stored
        keys = list(zip(*(stored[name].to_pylist() for name in who), strict=True))
        self._at = stored["minute"].cast(pa.int64()).to_numpy()
        self.names = sorted({*keys, *(name for name, _ in moves)})
        self._number = number = {name: k for k, name in enumerate(self.names)}
        self._of = np.array([number[key] for key in keys], np.int64)
        self.known, self.minutes = np.unique(self._at), np.union1d(self._at, touched)
        self._row = {key: k for k, key in enumerate(zip(keys, self._at.tolist(), strict=True))}
        shape = len(self.names), len(self.minutes), len(GAUGES)
        self._gauges, self._moves = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        values = np.stack([pc.fill_null(stored[gauge], 0).to_numpy() for gauge in GAUGES], axis=1)
        self._gauges[self._of, self._column(self._at)] = values
        for (name, minute), counts in moves.items():
            self._moves[number[name], self._column(_us(minute))] += [counts.get(c, 0) for c in GAUGES.values()]
        self.moved = self._moves.cumsum(axis=1)
        # A new minute goes on from the one before it.
        last = np.maximum.accumulate(np.where(np.isin(self.minutes, self.known), np.arange(shape[1]), -1))
        self.now = np.where(last[None, :, None] >= 0, self._gauges[:, last], 0) + self.moved

    def began(self, counts: Counts) -> I64:
        """The gauges before the first stored minute, not 0 if earlier ones were removed; empty if none is stored."""
        if not len(self.known):
            return np.zeros(0, np.int64)
        first = self._column(self.known[0])
        minute = _time(self.known[0])
        here = [[counts.get((name, minute), {}).get(c, 0) for c in GAUGES.values()] for name in self.names]
        began: I64 = self._gauges[:, first] + self._moves[:, first] - np.array(here)
        return began

    def row(self, counted: _Counted, name: Who, minute: int) -> dict[str, Any]:
        """The row of a touched minute; empty if all values are 0.

        If the partials have fewer events than the stored row, retention removed some: only the gauges change then.
        """
        key = name, _time(minute)
        sums = counted.counts.get(key, {})
        rest = _tallies(sums) | _percentiles(counted.latencies.get(key), counted.lags.get(key))
        if (k := self._row.get((name, int(minute)))) is not None:
            there = self._stored.slice(k, 1)
            if there["events"][0].as_py() > rest["events"]:
                return self._with_gauges(name, minute, self._moved(there).to_pylist()[0])
        now = dict(zip(GAUGES, self._now(name, minute), strict=True))
        return self._with_gauges(name, minute, rest | span_columns(now, sums, counted.within.get(key, {})))

    def without_row(self, minutes: I64) -> list[dict[str, Any]]:
        """The rows of stored minutes for owners without one."""
        moved = [name for k, name in enumerate(self.names) if self.moved[k].any()]
        pairs = ((name, minute) for name in moved for minute in minutes.tolist())
        return [self.row(NOTHING, *pair) for pair in pairs if pair not in self._row]

    def moved_rows(self, minutes: I64) -> pa.Table:
        """The stored rows of these minutes with their new gauges."""
        rows = self._moved(self._stored.filter(pa.array(np.isin(self._at, minutes))))
        zero = np.logical_not(np.stack([rows[gauge].to_numpy() for gauge in GAUGES]).any(axis=0))
        says = [bool(self._said(row)) for row in rows.filter(pa.array(zero)).to_pylist()]
        zero[zero] = np.logical_not(says)
        return rows.filter(pa.array(~zero))

    def _moved(self, rows: pa.Table) -> pa.Table:
        """Stored rows with their new gauges, and each minute's maximum raised by the same amount."""
        keys = zip(*(rows[name].to_pylist() for name in self._who), strict=True)
        of, at = [self._number[key] for key in keys], self._column(rows["minute"].cast(pa.int64()).to_numpy())
        now = dict(zip(GAUGES, self.now[of, at].T, strict=True))
        rows = shift_spans(rows, {name: now[name] - pc.fill_null(rows[name], 0).to_numpy() for name in SPANS})
        for gauge, values in now.items():
            rows = rows.set_column(rows.column_names.index(gauge), rows.schema.field(gauge), pa.array(values))
        return rows

    def _now(self, name: Who, minute: int) -> list[int]:
        now: list[int] = self.now[self._number[name], self._column(minute)].tolist()
        return now

    def _with_gauges(self, name: Who, minute: int, rest: Mapping[str, Any]) -> dict[str, Any]:
        now = dict(zip(GAUGES, self._now(name, minute), strict=True))
        row = {**rest, **dict(zip(self._who, name, strict=True)), **now}
        return row | {"minute": _time(minute)} if self._said(row) else {}

    def _said(self, row: Mapping[str, Any]) -> list[str]:
        return [column for column, value in row.items() if value and column not in (*self._who, "minute")]

    def _column(self, minutes: Any) -> Any:
        return np.searchsorted(self.minutes, minutes)


class _Files:
    """The files of a table by their minutes: only files that may have the requested rows are opened."""

    def __init__(self, lake: Lake, kind: str) -> None:
        self._lake, self._kind, self.table = lake, kind, lake.open(kind)
        found = pa.table(self.table.get_add_actions(flatten=True))
        found = found.filter(pc.fill_null(pc.not_equal(found["num_records"], 0), True))  # an empty table has no bounds
        self._files = list(map(Replaced, found["path"].to_pylist(), found["size_bytes"].to_pylist()))
        self._first, self._last = _bound(found, "min.minute", -EVER), _bound(found, "max.minute", EVER)

    def rows(self, touched: Minutes, back: int = 0, since: int = EVER) -> pa.Table:
        """At least the rows of these clusters and minutes, of some time before each, and all since `since`."""
        import pyarrow.dataset as ds

        minutes = np.unique(np.concatenate(list(touched.values())))
        late = ds.field("minute") >= pa.scalar(int(minutes[0] - back), US)
        return self._read(self._chosen(minutes, back, since), ds.field("cluster").isin(list(touched)) & late)

    def begin_at(self, minute: int) -> bool:
        """Whether no file has rows before it."""
        return bool((self._first >= minute).all())

    def without(self, rows: pa.Table) -> tuple[list[Replaced], pa.Table]:
        """The files with rows of these clusters and minutes, and all other rows in them."""
        replaced, kept = [], [rows.schema.empty_table()]
        for number in self._chosen(np.unique(rows["minute"].cast(pa.int64()).to_numpy())):
            there = self._read([number])
            gone = _is_in(there, _by_cluster(rows))
            if gone.true_count:
                replaced.append(self._files[number])
                kept.append(there.filter(pc.invert(gone)))
        return replaced, pa.concat_tables(kept)

    def _chosen(self, minutes: I64, back: int = 0, since: int = EVER) -> I64:
        least, most = np.searchsorted(minutes, self._first), np.searchsorted(minutes, self._last + back, "right")
        return np.flatnonzero((least < most) | (self._last >= since))

    def _read(self, numbers: Sequence[int] | I64, keep: ds.Expression | None = None) -> pa.Table:
        return _rows(self._lake, self._kind, [unquote(self._files[number].path) for number in numbers], keep)


def _stored(files: _Files, touched: Minutes, moved_from: Mapping[str, int]) -> pa.Table:
    """The rows of touched minutes, of the one before each new minute, and of all after a gauge moves.

    If a cluster has none before its first touched minute, all of its rows.
    """
    parts: list[pa.Table] = []
    back = 0
    while touched:
        first = min(int(minutes[0]) for minutes in touched.values())
        all_read = files.begin_at(first - back)
        since = min((moved_from[cluster] for cluster in touched if cluster in moved_from), default=EVER)
        rows = files.rows(touched, back, first if all_read else since)
        have = touched if all_read else _by_cluster(rows)
        touched = {c: minutes for c, minutes in touched.items() if not _goes_on(minutes, have.get(c), back)}
        parts.append(rows.filter(pc.invert(pc.is_in(rows["cluster"], pa.array(list(touched), pa.string())))))
        back = back * WIDER or LOOK_BACK_US
    return pa.concat_tables(parts)


def _goes_on(touched: I64, stored: I64 | None, back: int) -> bool:
    """Whether each touched minute is stored, or follows another within a time."""
    if stored is None:
        return False
    known = np.union1d(stored, touched)
    at = np.searchsorted(known, touched)
    near = (at > 0) & (touched - known[at - 1] <= back)
    return bool((np.isin(touched, stored) | near).all())


def _moved_from(new: pa.Table) -> dict[str, int]:
    """The first minute in which a gauge moves, by cluster."""
    found: dict[str, int] = {}
    for (name, minute), counts in summed_counts(new, ("cluster",)).items():
        if any(counts.get(change) for change in GAUGES.values()):
            found[name[0]] = min(_us(minute), found.get(name[0], EVER))
    return found


def _with_first(touched: Minutes, stored: pa.Table) -> Minutes:
    """The minutes, with the first stored one of each cluster."""
    first = {cluster: minutes[:1] for cluster, minutes in _by_cluster(stored).items()}
    return {cluster: np.union1d(minutes, first.get(cluster, minutes)) for cluster, minutes in touched.items()}


def _with_moves(
    touched: Minutes, within: Collection[tuple[Who, datetime]], since: Mapping[str, int], stored: Minutes
) -> Minutes:
    """The minutes, with stored ones after a gauge moves in which SPANS changed: their seconds may differ."""
    found = {cluster: minutes.tolist() for cluster, minutes in touched.items()}
    for (cluster, *_), minute in within:
        if cluster in since and _us(minute) > since[cluster]:
            found[cluster].append(_us(minute))
    return {
        cluster: np.union1d(touched[cluster], np.intersect1d(minutes, stored.get(cluster, [])))
        for cluster, minutes in found.items()
    }


def _by_cluster(rows: pa.Table) -> Minutes:
    pairs = rows.select(["cluster", "minute"]).group_by(["cluster", "minute"]).aggregate([]).sort_by("minute")
    found: dict[str, list[int]] = {}
    for cluster, minute in zip(pairs["cluster"].to_pylist(), pairs["minute"].cast(pa.int64()).to_pylist(), strict=True):
        found.setdefault(cluster, []).append(minute)
    return {cluster: np.array(minutes, np.int64) for cluster, minutes in found.items()}


def _is_in(rows: pa.Table, minutes: Minutes) -> pa.BooleanArray:
    """A mask of the rows of these clusters and minutes."""
    at, clusters = rows["minute"].cast(pa.int64()).to_numpy(), rows["cluster"].to_numpy()
    among = np.zeros(len(rows), np.bool_)
    for cluster, own in minutes.items():
        among |= (clusters == cluster) & np.isin(at, own)
    return pa.array(among)


def _rows(lake: Lake, kind: str, paths: Sequence[str], keep: ds.Expression | None = None) -> pa.Table:
    import pyarrow.dataset as ds

    rows = ds.dataset(list(paths), declared(kind).arrow(), ds.ParquetFileFormat(), lake.files(kind))
    return with_plain_text(rows).to_table(filter=keep)


def _bound(actions: pa.Table, name: str, unknown: int) -> I64:
    """A bound of each file's minutes."""
    if name not in actions.column_names:
        return np.full(len(actions), unknown)
    found = pc.fill_null(actions[name].cast(US).cast(pa.int64()), unknown)
    return np.asarray(found.to_numpy())


def _us(time: datetime) -> int:
    return int(time.timestamp()) * 1_000_000


def _time(us: int) -> datetime:
    return datetime.fromtimestamp(us // 1_000_000, UTC)


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
