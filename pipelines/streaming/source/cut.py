"""A part of a bronze file: for each source the rows between two sequence numbers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.replication.telemetry.coverage import KEY_COLUMNS, SourcedRows
from pipelines.streaming.source.bronze_commits import Cut


def cut_rows(events: pa.Table, cut: Cut) -> pa.Table:
    """The rows of a file that belong to a cut."""
    told = have_source(events)
    ends = {(c, s, e): (first, last) for c, s, e, first, last in cut["bounds"]}
    known = events.filter(told)
    keep = np.full(len(events), cut["rest"])
    if len(known):
        rows = SourcedRows(known.select(KEY_COLUMNS))
        first, last = np.array([ends.get(name, (0, -1)) for name in rows.names], np.int64).T
        inside = [
            (part.int64("source_seq") >= first[of]) & (part.int64("source_seq") <= last[of])
            for part, of in zip(rows.slices, rows.source_of, strict=True)
        ]
        keep[told.to_numpy(zero_copy_only=False)] = np.concatenate(inside)
    return events.filter(pa.array(keep))


def have_source(events: pa.Table) -> pa.Array:
    """A mask of the rows with a source and a sequence number."""
    valid = [events[name].is_valid() for name in KEY_COLUMNS if name != "ts"]
    known = valid[0]
    for more in valid[1:]:
        known = pc.and_(known, more)
    return known.combine_chunks()
