"""Beginnings and ends of logs, and what is told of the time until others of their broker begin."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from generators.brokerlogs.tailing.windows import Spans, is_named_by_kafka, windows_after, windows_before

if TYPE_CHECKING:
    from generators.brokerlogs.tailing.tailer import Tailer


def common_end(tailer: Tailer) -> list[pa.Table]:
    """A progress row at the latest time that a log of its broker tells of, once all of them are read to their ends.

    They were offered together: a log that ends before the others has printed nothing since, unless only rotated files
    of it were given. One under a name that people gave it may go on in another one, which begins after its end: lines
    between them are missing then.
    """
    if tailer.reader.blocked:
        return []
    family = [tailer, *tailer.siblings]
    ended = all(one.finished and one.drained for one in family)
    windows = _windows_beside(tailer, tailer.time.defaults.get("broker_id"))
    later, is_hole = windows_after(windows, tailer.max_ts)
    if not later:
        ended = ended and tailer.source.series.has_live()
        return tailer.time.row_at(max(one.max_ts for one in family), tailer.parser.shown) if ended else []
    if not (ended and is_hole and tailer.is_new):
        return []
    tailer.is_new = False
    tailer.missing.add_lost(f"nothing shows what follows until {later[0]} begins")
    rows = tailer.take_notes()
    tailer.time.advance(rows[-1], tailer.max_ts)
    return rows


def note_hole_before(tailer: Tailer, rows: pa.Table) -> None:
    """Note that lines are missing before the first rows of a log if another one, told by earlier calls, ends there."""
    ts, new = rows["ts"][0].value, {one.source.source_id for one in tailer.siblings if one.is_new}
    windows = [one for one in _windows_beside(tailer, rows["broker_id"][0].as_py()) if one[0] not in new]
    before, is_hole = windows_before(windows, ts)
    if is_hole:
        tailer.missing.add_lost(f"nothing shows that it goes on where {before[-1]} ends")


def unread_rows(tailer: Tailer, ts: int) -> list[pa.Table]:
    """Rows on missing lines of a log without other rows, at the time at which its lines ended, else `ts` (us).

    The time of the log stays: its next lines may be older.
    """
    parser = tailer.parser
    if parser.report.lines > tailer.report_before.lines and parser.report.tells_nothing:
        first = parser.report.first_line
        tailer.missing.add_unread([f"nothing of it was understood, its first line is {first!r}"])
    if not tailer.missing.notes or tailer.has_rows or not tailer.drained or not tailer.reader.at_end:
        return []
    known, parser.low_watermark, tailer.has_rows = parser.low_watermark, tailer.ended_us or ts, True
    rows, parser.low_watermark = tailer.take_notes(), known
    return rows


def _windows_beside(tailer: Tailer, broker_id: int | None) -> list[tuple[str, Spans]]:
    """Return when other logs of the broker under names that people gave them told something, if it is one of them.

    Such logs may be windows of one.
    """
    if is_named_by_kafka(tailer.source.source_id):
        return []
    here = [(one.source.source_id, one.time.defaults.get("broker_id"), one.grades.spans) for one in tailer.siblings]
    others = [*here, *tailer.told_beside]
    return [
        (name, spans) for name, broker, spans in others if broker == broker_id and spans and not is_named_by_kafka(name)
    ]
