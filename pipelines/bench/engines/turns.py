"""Rows of bronze in the order in which they were reported, for an engine that reads each once.

In a large commit rows that fill what others leave empty have a row group of their own, ahead of the others: see
`pipelines.lake.row_groups`. Each source numbers its rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.lake.row_groups import FEW
from pipelines.replication.compiled.types import I64

NUMBERS = ("source_id", "source_seq")
ROWS = 1 << 17


def turns(path: str, columns: Sequence[str]) -> Iterator[tuple[pa.Table, pa.RecordBatch, I64]]:
    """(rows set apart, others, ahead of which of those each of them comes) of a file, piece by piece; names as
    dictionaries."""
    with pq.ParquetFile(path, read_dictionary=["event_type", "topic", "source_id"]) as file:
        wanted, groups = [*columns, *NUMBERS], list(range(file.metadata.num_row_groups))
        apart = len(groups) > 1 and file.metadata.row_group(0).num_rows <= file.metadata.num_rows // FEW
        waiting = file.read_row_groups(groups[: int(apart)], columns=wanted, use_threads=False)
        for batch in file.iter_batches(ROWS, groups[int(apart) :], wanted, use_threads=False):
            before = _before(waiting, batch)
            due = np.flatnonzero(before < len(batch))
            due = due[np.argsort(before[due], kind="stable")]
            yield waiting.take(pa.array(due)), batch, before[due]
            waiting = waiting.filter(pa.array(before == len(batch)))
        if len(waiting):
            yield waiting, batch.slice(len(batch)), np.zeros(len(waiting), dtype=np.int64)


def _before(waiting: pa.Table, batch: pa.RecordBatch) -> I64:
    """By waiting row: the first of the batch that its source reported later; the batch's length where there is none."""
    before = np.full(len(waiting), len(batch), dtype=np.int64)
    names, codes = batch["source_id"].dictionary.to_pylist(), batch["source_id"].indices.to_numpy()
    numbers = batch["source_seq"].to_numpy()
    for source in pc.unique(waiting["source_id"]).to_pylist():
        mine = np.flatnonzero(pc.equal(waiting["source_id"], source))
        rows = np.flatnonzero(codes == names.index(source)) if source in names else np.empty(0, dtype=np.int64)
        after = np.searchsorted(numbers[rows], waiting["source_seq"].to_numpy()[mine])
        before[mine] = np.append(rows, len(batch))[after]
    return before
