"""Waiting facts: the HW after lost telemetry, and rows that a later report may still match."""

from __future__ import annotations

from pipelines.replication.compiled.decorators import hot, kernel, seldom
from pipelines.replication.compiled.records import Record, RecordArray, copy_record
from pipelines.replication.compiled.types import NEVER, NULL
from pipelines.replication.term.bundles import Term, hw_row
from pipelines.replication.term.constants import LEFT, MATCHED, unsigned
from pipelines.replication.term.layout import ADVANCE, DISAGREE, IDLE, OPEN, REPORT, UNREPORTED
from pipelines.replication.term.replica_sync import pass_deadlines
from pipelines.replication.term.report_agreement import decide_report


@kernel
def pause_after_gap(lane: Record, now: int) -> None:
    """Telemetry is missing: every LEO of the maximal ISR has to be reported again, and the ISR may be another one.

    Nor does a later row refute a report of before: what is missing may be the start of a term, or of another topic of
    the same name.
    """
    lane.missed = now
    lane.evidence_hw = lane.agreed = NULL
    lane.low_reports = 0
    if lane.state != IDLE:
        lane.unknown_leos = lane.isr | lane.joining
        lane.append_ts = NULL
        lane.isr_doubted = 1


@kernel
def pass_gaps(term: Term, gaps: RecordArray, end: int, now: int) -> None:
    """Apply the gaps from `cursor.gap` to `end` that came up to `now`, each once."""
    lane, cursor = term.lane, term.cursor
    while cursor.gap < end and gaps[cursor.gap].ts <= now:
        gap = gaps[cursor.gap]
        if gap.ts > lane.paused_at:
            if lane.state != IDLE:
                pass_deadlines(term, gap.ts)
            pause_after_gap(lane, gap.ts)
            lane.paused_at = gap.ts
            if gap.unread:
                lane.level_before = max(lane.level, lane.level_before)
                lane.level = 0  # nobody knows what this source still logs
        cursor.gap += 1


@kernel
def finish_rows(term: Term, final_rows: RecordArray, kept_rows: RecordArray, until: int, final: bool) -> None:
    """Split a lane's rows into final ones and ones that a later report may still match; `final`: all become final.

    Of computed HWs only the last in each `hw_resolution` stays.
    """
    settled, resolution, at, since = until - term.settings.race_window, term.settings.hw_resolution, 0, NEVER
    end = term.cursor.hw
    while at < end and (final or hw_row(term, at).ts <= settled):
        row = hw_row(term, at)
        if resolution > 0 and row.kind == ADVANCE and row.agreement != DISAGREE:
            later = _next_advance(term, at + 1)
            if not since <= row.ts < since + resolution:
                since = row.ts // resolution * resolution
            if later < end and since <= hw_row(term, later).ts < since + resolution:
                at += 1
                continue
            if later == end and not final and settled < since + resolution:
                break
        if seldom(row.kind == REPORT and row.agreement >= OPEN and row.agreement != MATCHED):
            row.agreement = decide_report(term, at, final)
            if row.agreement != LEFT:
                row.holding = 0
        if seldom(row.agreement == LEFT):
            _keep(term, kept_rows, row)
        elif row.agreement != MATCHED:
            target = final_rows[unsigned(term.cursor.final)]
            copy_record(target, row)
            if row.agreement == OPEN:
                target.agreement = UNREPORTED
            term.cursor.final += 1
        at += 1
    for k in range(at, end):
        if hw_row(term, k).agreement != MATCHED:
            _keep(term, kept_rows, hw_row(term, k))


@hot
def _next_advance(term: Term, at: int) -> int:
    """The next computed HW from there on, behind all rows where there is none."""
    while at < term.cursor.hw and (hw_row(term, at).kind != ADVANCE or hw_row(term, at).agreement == MATCHED):
        at += 1
    return at


@hot
def _keep(term: Term, kept_rows: RecordArray, row: Record) -> None:
    copy_record(kept_rows[unsigned(term.cursor.kept)], row)
    term.cursor.kept += 1
