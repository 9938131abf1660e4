"""The telemetry source of each row of a micro-batch, and which sequence numbers of each source the micro-batch covers.

Coverage is runs of consecutive numbers. Tasks that read bronze compute it of their rows, which no state is needed for.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.replication.compiled.decorators import compiled, kernel
from pipelines.replication.compiled.hash_index import Keys, enter
from pipelines.replication.compiled.records import Arrays, Records, read_only, record_layout
from pipelines.replication.compiled.types import I32, I64, LOW, NEVER
from pipelines.replication.events.row_rules import FIRST_US, LAST_US
from pipelines.replication.events.row_slices import RowSlice, row_slices

COVERAGE = pa.schema([
    pa.field("cluster", pa.string(), nullable=False),
    pa.field("source_id", pa.string(), nullable=False),
    pa.field("source_epoch", pa.int32(), nullable=False),
    pa.field("since", pa.int64(), nullable=False),
    pa.field("latest", pa.int64(), nullable=False),
    pa.field("seq_from", pa.int64(), nullable=False),
    pa.field("seq_to", pa.int64(), nullable=False),
])  # fmt: skip
"""A run: its first and last number, the time of its first row (`since`) and its largest time (`latest`), in
microseconds."""

CLOCK_JUMP_US = 60_000_000
"""A row this far ahead of every other source is taken for a wrong clock until shown otherwise (contract, `clock`)."""

KEY_COLUMNS = ("cluster", "source_id", "source_epoch", "source_seq", "ts")
"""The columns that coverage is made of."""
NO_TIME = -1
"""The times of a run of rows whose times are refused: they move nobody's clock."""
RUN = record_layout(source=-1, seq_from=0, seq_to=0, since=0, last=0, latest=0)
"""As COVERAGE has them; `source` is a number, `last` the time of the last row."""
AT = RUN.at


class SourcedRows:
    """The rows of `events` in slices, and their sources, numbered in the order of their first row."""

    def __init__(self, events: pa.Table) -> None:
        self.events, self.slices = events, row_slices(events)
        self.names: list[tuple[str, str, int]] = []
        """(cluster, source_id, source_epoch) of each source."""
        self.source_of: list[I32] = []
        """By slice the number of each row's source."""
        self._clusters: dict[str, int] = {}
        self._ids: dict[str, int] = {}
        self._keys = Keys()
        for rows in self.slices:
            self.source_of.append(read_only(self._number(rows)))
        clusters, ids = list(self._clusters), list(self._ids)
        for key, epoch in zip(self._keys.keys.tolist(), self._keys.seconds.tolist(), strict=True):
            self.names.append((clusters[key >> 32], ids[key & LOW], epoch))
        epochs = [epoch for _, _, epoch in self.names]
        self.set_bounds("source_epoch", min(epochs, default=0), max(epochs, default=0))

    def set_bounds(self, column: str, least: int, most: int) -> None:
        """Record the range of a column's values, so that validation need not read them again."""
        for rows in self.slices:
            rows.bounds[column] = least, most

    def _number(self, rows: RowSlice) -> I32:
        clusters, cluster_names = rows.codes("cluster")
        ids, id_names = rows.codes("source_id")
        known = _numbers_of(self._clusters, cluster_names), _numbers_of(self._ids, id_names)
        epoch, numbers, done = rows.int32("source_epoch"), np.empty(len(rows), dtype=np.int32), 0
        while True:
            columns = _SourceColumns(clusters[done:], known[0], ids[done:], known[1], epoch[done:])
            numbered, self._keys.count = _number_sources(columns, self._keys.table, numbers[done:])
            done += numbered
            if done == len(rows):
                return numbers
            self._keys.widen()


def _numbers_of(known: dict[str, int], names: pa.Array) -> I32:
    """The numbers of the names of one dictionary; new names get the next ones."""
    return np.array([known.setdefault(name, len(known)) for name in names.to_pylist()], dtype=np.int32)


class _SourceColumns(NamedTuple):
    """The writers of the rows of a slice: codes of names, and the number of each code."""

    cluster: I32
    cluster_number: I32
    source_id: I32
    source_id_number: I32
    epoch: I32


@kernel
def _number_sources(columns: _SourceColumns, index: tuple[I64, int, I64, int], numbers: I32) -> tuple[int, int]:
    """(rows numbered, sources known): writes the source of each row; stops where the hash index is to be widened."""
    table, bits, keys, count = index
    last, last_epoch, number = -1, np.int64(0), np.int32(-1)
    for row in range(len(numbers)):
        cluster = np.int64(columns.cluster_number[columns.cluster[row]])
        source_id = np.int64(columns.source_id_number[columns.source_id[row]])
        key, epoch = int((cluster << 32) | source_id), np.int64(columns.epoch[row])
        if key != last or epoch != last_epoch:
            found, count = enter(table, bits, keys, count, key, epoch)
            if found < 0:
                return row, count
            last, last_epoch, number = key, epoch, np.int32(found)
        numbers[row] = number
    return len(numbers), count


def coverage(events: pa.Table) -> pa.Table:
    """The runs of consecutive source_seq in `events`, per source; a jump of the clock starts a new run."""
    for name in KEY_COLUMNS:
        if events[name].null_count:
            events = events.filter(events[name].is_valid())
    return coverage_of_rows(SourcedRows(events))


def joined(covered: pa.Table) -> pa.Table:
    """The coverage of rows that were read in portions, COVERAGE of each below one another: runs that go on as one.

    `hwmark maintain` sorts rows by partition, so that the numbers of a source spread over many portions, and hardly two
    of one portion follow each other.
    """
    if len(covered) < 2:
        return covered
    sources = [covered[name].combine_chunks().dictionary_encode().indices for name in ("cluster", "source_id")]
    codes = [column.to_numpy(zero_copy_only=False) for column in (*sources, covered["source_epoch"])]
    since, latest, first, last = (covered[f.name].to_numpy() for f in list(COVERAGE)[3:])
    order = np.lexsort((first, *reversed(codes)))
    before, after = order[:-1], order[1:]
    same = np.logical_and.reduce([code[before] == code[after] for code in codes])
    goes_on = same & (first[after] == last[before] + 1) & (np.abs(since[after] - latest[before]) <= CLOCK_JUMP_US)
    starts = np.concatenate([[0], np.flatnonzero(~goes_on) + 1])
    ends = np.append(starts[1:], len(order)) - 1
    runs = covered.take(pa.array(order[starts]))
    made = {"seq_to": last[order[ends]], "latest": np.maximum.reduceat(latest[order], starts)}
    return pa.table([made.get(field.name, runs[field.name]) for field in COVERAGE], schema=COVERAGE)


def coverage_of_rows(rows: SourcedRows) -> pa.Table:
    """`coverage` of rows in which no key column is null."""
    if not rows.names:
        return COVERAGE.empty_table()
    found = _runs(rows)
    if found[:, AT.seq_from].min() < 0 or any(epoch < 0 for _, _, epoch in rows.names):
        return coverage_of_rows(SourcedRows(_with_numbers(rows.events)))
    runs = None if _has_refused_times(found) else _joined(_in_order(found))
    if runs is None:
        runs = _in_order(_runs_of_sorted(rows))
    clusters, ids, epochs = zip(*rows.names, strict=True)
    source = pa.array(runs[:, AT.source])
    columns = [
        pa.array(names, f.type).take(source) for names, f in zip((clusters, ids, epochs), COVERAGE, strict=False)
    ]
    columns += [pa.array(np.ascontiguousarray(runs[:, getattr(AT, f.name)])) for f in list(COVERAGE)[3:]]
    return pa.table(columns, schema=COVERAGE)


def _with_numbers(events: pa.Table) -> pa.Table:
    """The rows without those whose numbers and epochs a row rule refuses: their times count for no other row."""
    return events.filter(
        pc.and_(pc.greater_equal(events["source_seq"], 0), pc.greater_equal(events["source_epoch"], 0))
    )


def _runs(rows: SourcedRows) -> Records:
    """Run in the order of arrival: rows of other sources may stand between those of one."""
    current, done, count, earliest = Arrays(RUN), Arrays(RUN, blank=False), 0, [NEVER]
    current.grow(len(rows.names))
    for part, source in zip(rows.slices, rows.source_of, strict=True):
        done.grow(count + len(part))
        count, first = _extend_runs(source, part.int64("source_seq"), part.int64("ts"), current.data, done.data, count)
        done.count = count
        earliest.append(first)
    runs = _with_current(done, count, current)
    rows.set_bounds("source_seq", int(runs[:, AT.seq_from].min()), int(runs[:, AT.seq_to].max()))
    rows.set_bounds("ts", min(earliest), int(runs[:, AT.latest].max()))
    return runs


def _with_current(done: Arrays, count: int, current: Arrays) -> Records:
    """The runs that are over, and those that the sources are in at the end."""
    begun = current.data[: current.count]
    return np.concatenate([done.data[:count], begun[begun[:, AT.source] >= 0]])


@compiled
def _extend_runs(source: I32, seq: I64, ts: I64, current: Records, done: Records, count: int) -> tuple[int, int]:
    """(runs that are over, the smallest time): each row extends the current run of its source, or ends it and begins
    another."""
    earliest = NEVER
    for row in range(len(source)):
        s, number, now = np.uint32(source[row]), seq[row], ts[row]
        earliest = min(earliest, now)
        step = number - current[s, AT.seq_to]
        if current[s, AT.source] >= 0 and 0 <= step <= 1 and abs(now - current[s, AT.last]) <= CLOCK_JUMP_US:
            current[s, AT.seq_to] = number
            current[s, AT.last] = now
            current[s, AT.latest] = max(current[s, AT.latest], now)
            continue
        if current[s, AT.source] >= 0:
            done[count] = current[s]
            count += 1
        current[s, AT.source] = source[row]
        current[s, AT.seq_from] = current[s, AT.seq_to] = number
        current[s, AT.since] = current[s, AT.last] = current[s, AT.latest] = now
    return count, earliest


def _in_order(runs: Records) -> Records:
    order = np.lexsort((runs[:, AT.seq_from], runs[:, AT.source]))
    ordered: Records = runs[order]
    return ordered


def _joined(runs: Records) -> Records | None:
    """Run that continue one another as one; None where some overlap."""
    before, after = runs[:-1], runs[1:]
    same = before[:, AT.source] == after[:, AT.source]
    step = after[:, AT.seq_from] - before[:, AT.seq_to]
    if (same & (step <= 0)).any():
        return None
    jumps = np.abs(after[:, AT.since] - before[:, AT.last]) > CLOCK_JUMP_US
    starts = np.concatenate([[0], np.flatnonzero(~same | (step > 1) | jumps) + 1])
    joined: Records = runs[starts]
    joined[:, AT.seq_to] = runs[np.append(starts[1:], len(runs)) - 1, AT.seq_to]
    joined[:, AT.latest] = np.maximum.reduceat(runs[:, AT.latest], starts)
    return joined


def _has_refused_times(runs: Records) -> bool:
    """Whether a row has a time that a row rule refuses."""
    return bool(
        runs[:, AT.since].min() < FIRST_US or runs[:, AT.last].min() < FIRST_US or runs[:, AT.latest].max() > LAST_US
    )


def _runs_of_sorted(rows: SourcedRows) -> Records:
    """Run of the rows sorted by source and number: for rows that come in any order, or with refused times."""
    source = np.concatenate(rows.source_of)
    seq, ts = (np.concatenate([part.int64(name) for part in rows.slices]) for name in ("source_seq", "ts"))
    ts = np.where((ts < FIRST_US) | (ts > LAST_US), NO_TIME, ts)
    order = np.lexsort((seq, source))
    current, done = Arrays(RUN, count=len(rows.names)), Arrays(RUN, count=len(order), blank=False)
    columns = read_only(source[order]), read_only(seq[order]), read_only(ts[order])
    count, _ = _extend_runs(*columns, current.data, done.data, 0)
    return _with_current(done, count, current)
