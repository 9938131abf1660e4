"""The arguments of the kernel's functions: a term with its records, an event, and the input and output of one run.

`@hot` functions may take any of them, since they are inlined. Others take only what they use: a call copies every array
of a bundle.
"""

from __future__ import annotations

from typing import NamedTuple

from pipelines.replication.compiled.decorators import hot
from pipelines.replication.compiled.records import Record, RecordArray
from pipelines.replication.compiled.types import I32, I64
from pipelines.replication.events.columns import Columns
from pipelines.replication.metadata.layout import Timeline
from pipelines.replication.term.constants import Marks, unsigned


class Stats(NamedTuple):
    """Per (broker, minute): events, append to HW and lag histograms."""

    events: I64
    append_to_hw: I64
    lag: I64
    bounds_us: I64
    bounds_records: I64


class Assigned(NamedTuple):
    """The assigned replicas as of each `leader` row, if known: ids[starts[k]:starts[k + 1]] as of rows[k]."""

    rows: I64
    starts: I64
    ids: I32


class Term(NamedTuple):
    """A broker's leadership of one partition while its rows are read, and what they lead to.

    `lane` is its record in LANES, `number` the row of it; `replicas` are its records of REPLICAS by replica slot;
    `settings` the rules that it follows (SETTINGS). `cursor` (CURSOR) counts the rows that were written.
    """

    number: int
    lane: Record
    replicas: RecordArray
    settings: Record
    hw_rows: RecordArray
    """HW_ROWS of this lane that are not final yet."""
    sync_rows: RecordArray
    ended_rows: RecordArray
    marks: Marks
    cursor: Record


class Event(NamedTuple):
    """A packed row, with what its fields say, and its `position` among those of the run."""

    row: Record
    position: int
    kind: int
    slot: int
    """Of the replica in a `fetch` or `replica_leo` row."""
    now: int
    """Its time, but no later than its source's clock is believed."""
    clock: int
    """The largest time of the lane so far."""
    stat: int
    needs_others: bool
    """Whether its effect depends on what other sources report."""


class Run(NamedTuple):
    """All that one call of the kernel reads and writes."""

    jobs: RecordArray
    gaps: RecordArray
    rows: RecordArray
    """Packed rows, those of a job side by side."""
    series: I32
    """By row of the micro-batch."""
    columns: Columns
    """Of the rare rows."""
    assigned: Assigned
    lanes: RecordArray
    replicas: RecordArray
    """In two dimensions: lane, replica slot."""
    timeline: Timeline
    cluster_rules: RecordArray
    settings: RecordArray
    """Room for one."""
    stats: Stats
    marks: Marks
    pending: RecordArray
    """HW_ROWS that were not final at the end of the run before."""
    pending_starts: I64
    hw_rows: RecordArray
    final_rows: RecordArray
    kept_rows: RecordArray
    sync_rows: RecordArray
    ended_rows: RecordArray
    cursor: RecordArray
    """One, see CURSOR."""


@hot
def replica_in(term: Term, slot: int) -> Record:
    return term.replicas[unsigned(slot)]


@hot
def begin_term_row(term: Term, what: int, end: int) -> Record:
    """Begin a row of TERMS about this term, up to `end`; returns it."""
    row = term.ended_rows[unsigned(term.cursor.ended)]
    row.what = what
    row.lane = term.number
    row.start = term.lane.term_start
    row.end = end
    term.cursor.ended += 1
    return row


@hot
def hw_row(term: Term, row: int) -> Record:
    return term.hw_rows[unsigned(row)]


@hot
def last_row(term: Term) -> Record:
    """The row of HW_ROWS written last; where there is none, one of the spare room."""
    return term.hw_rows[term.cursor.hw - 1]
