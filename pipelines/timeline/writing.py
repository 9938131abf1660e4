"""The job's part in `gold/timeline`: it writes anew the minutes from which on tables have new rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.lake.data_file import write_file
from pipelines.lake.lake import Lake
from pipelines.lake.queries import Filter, microseconds
from pipelines.lake.records import write_record
from pipelines.lake.spans import spans
from pipelines.lake.table import committing, dataset, replace_files
from pipelines.streaming.reconstruction import reconstruction
from pipelines.timeline.happenings import KINDS, SOURCES, event_lines
from pipelines.timeline.stored import NEVER, WRITTEN, Written, last_write, unwritten
from schemas import timeline

NAME, ALL = "timeline", 1 << 62
DAY_US = 86_400_000_000
_ORDER = [(name, "ascending") for name in ("ts", "cluster", "kind", "summary")]


def write_timeline(lake: Lake) -> None:
    """Put the lines from each cluster's first new row on in place of those that the table has of them.

    One commit, then the record: killed in between, the next call does the same again.
    """
    query, before, present = reconstruction(lake).query, last_write(lake) or Written(), lake.at_once()
    versions, begins = unwritten(present, SOURCES, before)
    if any(ts < NEVER for ts in begins.values()):
        found = (line for kind in KINDS for line in event_lines(present, kind, Filter(since=begins), ALL)[0])
        rows = [
            asdict(line) | {"until": line.until or line.ts, "severity": line.weight, "topic": line.topic,
                            "summary": line.summary}
            for line in found
        ]  # fmt: skip
        lines = pa.Table.from_pylist(rows, timeline.ARROW)
        committing(lambda: _replace(lake, lines, begins))
    write_record(lake, WRITTEN, Written(query, versions, sorted(begins)))


def _replace(lake: Lake, lines: pa.Table, begins: Mapping[str, datetime]) -> None:
    """Commit these lines instead of those from `begins` on, a file for each day; nothing if they are the same."""
    table, first = lake.open(NAME), microseconds(min(begins.values())) // DAY_US * DAY_US
    taken = [span for span in spans(table, lake.files(NAME), "ts") if not span.ends_before(first)]
    paths = {span.file.path for span in taken}
    there = dataset(table, timeline.ARROW, keep=paths.__contains__).to_table()
    at = [pc.and_(pc.equal(there["cluster"], name), pc.greater_equal(there["ts"], ts)) for name, ts in begins.items()]
    late = at[0]
    for mask in at[1:]:
        late = pc.or_(late, mask)
    lines = lines.sort_by(_ORDER)
    if there.filter(late).sort_by(_ORDER).equals(lines):
        return
    rows = pa.concat_tables([there.filter(pc.invert(late)), lines]).sort_by(_ORDER)
    days = pc.divide(rows["ts"].cast(pa.int64()), DAY_US)
    parts = [rows.filter(pc.equal(days, day)) for day in pc.unique(days)]
    written = [write_file(lake.files(NAME), NAME, timeline.ARROW, [part]) for part in parts]
    replace_files(table, [span.file for span in taken], written, None)
