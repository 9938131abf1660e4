"""Rows of `gold/partition_changes`: the differences between the stored present and that of a batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.lake.data_file import Written, write_file
from pipelines.lake.lake import Lake
from pipelines.streaming.tables import CHANGES, HEALTH
from schemas import partition_changes, partition_health

KEY = ("cluster", "topic", "partition")
COMPARED = [name for name in partition_health.ARROW.names if name not in (*KEY, *partition_changes.PASSING)]


def write_changes(lake: Lake, files: Sequence[Written], *, anew: bool) -> list[Written]:
    """Write a file of the changes from the stored present to that in `files`; `anew` if no stored present counts.

    It is committed with the present, so that a batch that is played again has the files of its first try.
    """
    import pyarrow.dataset as ds

    schema = partition_health.ARROW
    stored = schema.empty_table() if anew else lake.read(HEALTH, schema)
    paths = [file.path for file in files]
    rows = changes(stored, ds.dataset(paths, schema, ds.ParquetFileFormat(), lake.files(HEALTH)).to_table())
    return [write_file(lake.files(CHANGES), CHANGES, rows.schema, [rows])] if len(rows) else []


def changes(stored: pa.Table, present: pa.Table) -> pa.Table:
    """The rows of `gold/partition_changes` between two presents in the schema of partition_health."""
    stored, present = stored.combine_chunks(), present.combine_chunks()
    old, now, new, gone = stored, present, present.slice(0, 0), stored.slice(0, 0)
    if not stored.select(KEY).equals(present.select(KEY)):  # true in most cases, as buckets keep their order
        before = pc.index_in(_keys(present), value_set=_keys(stored)).combine_chunks()
        old, now = stored.take(before.drop_null()), present.filter(before.is_valid())
        new = present.filter(before.is_null())
        gone = stored.filter(pc.invert(pc.is_in(_keys(stored), value_set=_keys(present))))
    differing = list(_differing(old.select(COMPARED).combine_chunks(), now.select(COMPARED).combine_chunks()))
    changed = now.take(pa.array(differing, pa.int64()))
    pairs = zip(old.take(pa.array(differing, pa.int64())).to_pylist(), changed.to_pylist(), strict=True)
    names = [[name for name in COMPARED if one[name] != other[name]] for one, other in pairs]
    rows = pa.concat_tables([new, changed, gone])
    said = pa.array([*[None] * len(new), *names, *[[]] * len(gone)], pa.list_(pa.string()))
    went = pa.array([False] * (len(new) + len(changed)) + [True] * len(gone))
    return rows.append_column("changed", said).append_column("gone", went).cast(partition_changes.ARROW)


def _keys(rows: pa.Table) -> pa.ChunkedArray:
    """The key of each row as one text; no name in Kafka has a line break."""
    return pc.binary_join_element_wise(*(rows[name].cast(pa.string()) for name in KEY), "\n")


def _differing(one: pa.Table, other: pa.Table) -> Iterator[int]:
    """The positions at which two tables differ, in order; few do, so whole slices are compared first."""
    waiting = [(0, len(one))]
    while waiting:
        begin, end = waiting.pop()
        if not one.slice(begin, end - begin).equals(other.slice(begin, end - begin)):
            if end - begin == 1:
                yield begin
            else:
                middle = (begin + end) // 2
                waiting += [(middle, end), (begin, middle)]
