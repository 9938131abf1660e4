"""Which sequence numbers of each telemetry source a micro-batch covers, as runs of consecutive numbers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from pipelines.replication.compiled.decorators import compiled
from pipelines.replication.compiled.records import Arrays, Records, record_layout
from pipelines.replication.compiled.types import I32, I64, read_only
from pipelines.replication.events.sources_of_rows import SourcedRows

COVERAGE = pa.schema([
    pa.field("cluster", pa.string(), nullable=False),
    pa.field("source_id", pa.string(), nullable=False),
    pa.field("source_epoch", pa.int32(), nullable=False),
    pa.field("since", pa.int64(), nullable=False),
    pa.field("told", pa.int64(), nullable=False),
    pa.field("seq_from", pa.int64(), nullable=False),
    pa.field("seq_to", pa.int64(), nullable=False),
])  # fmt: skip
"""A run: its first and last number, the time of its first row (`since`) and its largest time (`told`), microseconds."""

CLOCK_JUMP_US = 60_000_000
"""A row this far ahead of every other source is taken for a wrong clock until shown otherwise (contract, `clock`)."""

KEY_COLUMNS = ("cluster", "source_id", "source_epoch", "source_seq", "ts")
"""The columns that coverage is made of."""
RUN = record_layout(source=-1, seq_from=0, seq_to=0, since=0, last=0, told=0)
"""As COVERAGE has them; `source` is a number, `last` the time of the last row."""
AT = RUN.at
FOREVER = 1 << 62


def coverage(events: pa.Table) -> pa.Table:
    """The runs of consecutive source_seq in `events`, per source; a jump of the clock starts a new run."""
    for name in KEY_COLUMNS:
        if events[name].null_count:
            events = events.filter(events[name].is_valid())
    return coverage_of_rows(SourcedRows(events))


def coverage_of_rows(rows: SourcedRows) -> pa.Table:
    """`coverage` of rows in which no key column is null."""
    if not rows.names:
        return COVERAGE.empty_table()
    runs = _joined(_in_order(_runs(rows)))
    if runs is None:
        runs = _in_order(_runs_of_sorted(rows))
    clusters, ids, epochs = zip(*rows.names, strict=True)
    source = pa.array(runs[:, AT.source])
    columns = [
        pa.array(names, f.type).take(source) for names, f in zip((clusters, ids, epochs), COVERAGE, strict=False)
    ]
    columns += [pa.array(np.ascontiguousarray(runs[:, getattr(AT, f.name)])) for f in list(COVERAGE)[3:]]
    return pa.table(columns, schema=COVERAGE)


def _runs(rows: SourcedRows) -> Records:
    """Runs in the order of arrival: rows of other sources may stand between those of one."""
    current, done, count, earliest = Arrays(RUN), Arrays(RUN, blank=False), 0, [FOREVER]
    current.grow(len(rows.names))
    for part, source in zip(rows.slices, rows.source_of, strict=True):
        done.grow(count + len(part))
        count, first = _extend_runs(source, part.int64("source_seq"), part.int64("ts"), current.data, done.data, count)
        done.count = count
        earliest.append(first)
    runs = _with_current(done, count, current)
    rows.set_bounds("source_seq", int(runs[:, AT.seq_from].min()), int(runs[:, AT.seq_to].max()))
    rows.set_bounds("ts", min(earliest), int(runs[:, AT.told].max()))
    return runs


def _with_current(done: Arrays, count: int, current: Arrays) -> Records:
    """The runs that are over, and those that the sources are in at the end."""
    begun = current.data[: current.count]
    return np.concatenate([done.data[:count], begun[begun[:, AT.source] >= 0]])


@compiled
def _extend_runs(source: I32, seq: I64, ts: I64, current: Records, done: Records, count: int) -> tuple[int, int]:
    """(runs that are over, the smallest time): each row extends the current run of its source, or ends it and begins
    another."""
    earliest = FOREVER
    for row in range(len(source)):
        s, number, now = np.uint32(source[row]), seq[row], ts[row]
        earliest = min(earliest, now)
        step = number - current[s, AT.seq_to]
        if current[s, AT.source] >= 0 and 0 <= step <= 1 and abs(now - current[s, AT.last]) <= CLOCK_JUMP_US:
            current[s, AT.seq_to] = number
            current[s, AT.last] = now
            current[s, AT.told] = max(current[s, AT.told], now)
            continue
        if current[s, AT.source] >= 0:
            done[count] = current[s]
            count += 1
        current[s, AT.source] = source[row]
        current[s, AT.seq_from] = current[s, AT.seq_to] = number
        current[s, AT.since] = current[s, AT.last] = current[s, AT.told] = now
    return count, earliest


def _in_order(runs: Records) -> Records:
    order = np.lexsort((runs[:, AT.seq_from], runs[:, AT.source]))
    ordered: Records = runs[order]
    return ordered


def _joined(runs: Records) -> Records | None:
    """Runs that continue one another as one; None where some overlap."""
    before, after = runs[:-1], runs[1:]
    same = before[:, AT.source] == after[:, AT.source]
    step = after[:, AT.seq_from] - before[:, AT.seq_to]
    if (same & (step <= 0)).any():
        return None
    jumps = np.abs(after[:, AT.since] - before[:, AT.last]) > CLOCK_JUMP_US
    starts = np.concatenate([[0], np.flatnonzero(~same | (step > 1) | jumps) + 1])
    joined: Records = runs[starts]
    joined[:, AT.seq_to] = runs[np.append(starts[1:], len(runs)) - 1, AT.seq_to]
    joined[:, AT.told] = np.maximum.reduceat(runs[:, AT.told], starts)
    return joined


def _runs_of_sorted(rows: SourcedRows) -> Records:
    """Runs of the rows sorted by source and number: for rows that come in any order."""
    source = np.concatenate(rows.source_of)
    seq, ts = (np.concatenate([part.int64(name) for part in rows.slices]) for name in ("source_seq", "ts"))
    order = np.lexsort((seq, source))
    current, done = Arrays(RUN, count=len(rows.names)), Arrays(RUN, count=len(order), blank=False)
    columns = read_only(source[order]), read_only(seq[order]), read_only(ts[order])
    count, _ = _extend_runs(*columns, current.data, done.data, 0)
    return _with_current(done, count, current)
