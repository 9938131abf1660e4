"""The events of one bronze file by the bucket of their partition, so that each task reads its own row groups.

The first row groups are for every task (broker-wide events, and the few with values in rare columns), then comes one
for each remainder of the bucket's hash by a power of two. The Parquet footer has this layout and the coverage of all
events, so that a task that reads a part of the rows knows all sequence numbers of the file.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.lake.row_groups import row_groups
from pipelines.replication.events.columns import with_dictionaries
from pipelines.replication.events.sharding import assign

KEY, COVERAGE = b"hwmark.buckets", b"hwmark.coverage"
VERSION = 1
"""The version of the footer's text and of the hash; a file with another version is read whole."""
EVERYBODY = -1
ROWS = 1 << 15
"""The fewest rows for each remainder: a row group costs some kilobytes of footer."""
MOST = 32


class RowGroup(NamedTuple):
    """A row group with the rows of the buckets that leave this remainder, or those for EVERYBODY."""

    rows: pa.Table
    remainder: int


@dataclass(frozen=True)
class BucketLayout:
    """The layout in a footer: the divisor, each row group's remainder and number of rows, and the coverage."""

    divisor: int
    remainders: tuple[int, ...]
    rows: tuple[int, ...]
    coverage: pa.Table

    def text(self, size: int) -> str:
        """The footer's text for a file whose rows end after this number of bytes."""
        parts = {"version": VERSION, "divisor": self.divisor, "remainders": self.remainders, "rows": self.rows}
        return json.dumps(parts | {"bytes": size, "coverage": _encoded(self.coverage)})

    def groups(self, buckets: int, mine: Iterable[int]) -> list[int]:
        """The row groups that may have rows of the buckets `mine`, out of `buckets`."""
        common = gcd(self.divisor, buckets)
        wanted = {bucket % common for bucket in mine}
        return [k for k, own in enumerate(self.remainders) if own == EVERYBODY or own % common in wanted]

    def readers(self, buckets: int, tasks: int) -> int:
        """The number of tasks that read the same row group, not counting those for EVERYBODY."""
        return -(-tasks // gcd(self.divisor, buckets, tasks))


def layout_of(metadata: pq.FileMetaData) -> BucketLayout | None:
    """The layout in a file's footer; None if there is none, or none of this version.

    A tool that rewrites a file may copy its footer's text, which is right for the original row groups only.
    """
    found = _described(metadata, KEY)
    if found is None:
        return None
    covered = _decoded(found["coverage"])
    return BucketLayout(found["divisor"], tuple(found["remainders"]), tuple(found["rows"]), covered)


def coverage_text(rows: Sequence[int], coverage: pa.Table, size: int) -> str:
    """The footer's text of a file with a known coverage alone: the rows of each row group, after how many bytes they
    end, and the coverage."""
    return json.dumps({"version": VERSION, "rows": list(rows), "bytes": size, "coverage": _encoded(coverage)})


def coverage_in(metadata: pq.FileMetaData) -> pa.Table | None:
    """The coverage of all rows of a file, from its footer; None if the footer has none."""
    found = _described(metadata, KEY) or _described(metadata, COVERAGE)
    return None if found is None else _decoded(found["coverage"])


def _described(metadata: pq.FileMetaData, key: bytes) -> dict[str, Any] | None:
    found: dict[str, Any] = json.loads((metadata.metadata or {}).get(key, b"{}"))
    if found.get("version") != VERSION:
        return None
    same = found["rows"] == [metadata.row_group(k).num_rows for k in range(metadata.num_row_groups)]
    same = same and found.get("bytes") in (None, _bytes_of_rows(metadata))
    return found if same and _fits(_decoded(found["coverage"]), metadata) else None


def _bytes_of_rows(metadata: pq.FileMetaData) -> int:
    """The byte where a file's rows end and its footer begins."""
    if not metadata.num_row_groups or not metadata.num_columns:
        return 0
    last = metadata.row_group(metadata.num_row_groups - 1).column(metadata.num_columns - 1)
    return int((last.dictionary_page_offset or last.data_page_offset) + last.total_compressed_size)


def _fits(coverage: pa.Table, metadata: pq.FileMetaData) -> bool:
    """Whether Parquet's own statistics agree with these sources, sequence numbers and times."""
    numbers = pc.sum(pc.subtract(coverage["seq_to"], coverage["seq_from"])).as_py() or 0
    if numbers + len(coverage) != metadata.num_rows:
        return False
    ranges = {
        **{name: _least_and_most(coverage[name], coverage[name]) for name in ("cluster", "source_id", "source_epoch")},
        "source_seq": _least_and_most(coverage["seq_from"], coverage["seq_to"]),
        "ts": _least_and_most(coverage["since"], coverage["latest"]),
    }
    columns = [metadata.schema.column(k).path for k in range(metadata.num_columns)]
    for name, (least, most) in ranges.items() if metadata.num_rows else ():
        groups = [metadata.row_group(k).column(columns.index(name)).statistics for k in range(metadata.num_row_groups)]
        if any(group is None or not group.has_min_max for group in groups):
            return False
        first = min(group.min_raw for group in groups)
        # The time of a run's first row is not the smallest where rows of several clocks follow each other.
        if most != max(group.max_raw for group in groups) or (first > least if name == "ts" else first != least):
            return False
    return True


def _least_and_most(least: pa.ChunkedArray, most: pa.ChunkedArray) -> tuple[Any, Any]:
    """The least and largest value of one or two columns in Parquet's statistics; text as bytes."""
    ends = pc.min(least).as_py(), pc.max(most).as_py()
    return ends if pa.types.is_integer(least.type) else (ends[0].encode(), ends[1].encode())


def _encoded(coverage: pa.Table) -> str:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, coverage.schema) as stream:
        stream.write_table(coverage)
    return b64encode(out.getvalue()).decode()


def _decoded(text: str) -> pa.Table:
    with pa.ipc.open_stream(b64decode(text)) as stream:
        return stream.read_all()


def by_bucket(events: pa.Table) -> list[RowGroup]:
    """The rows of a file, or of a part of it, in the order for writing; names as dictionaries."""
    *rare, others = row_groups(with_dictionaries(events))
    divisor = divisor_of(len(events))
    bucket = assign(others, divisor)
    # With few keys Arrow counts and does not compare.
    ordered = others.take(pc.array_sort_indices(pa.array(bucket)))
    sizes = np.bincount(bucket + 1, minlength=divisor + 1)
    parts = [ordered.slice(end - size, size) for end, size in zip(np.cumsum(sizes), sizes, strict=True)]
    apart = [RowGroup(rows, EVERYBODY) for rows in (*rare, parts[0]) if len(rows)]
    return apart + [RowGroup(rows, remainder) for remainder, rows in enumerate(parts[1:]) if len(rows)]


def divisor_of(rows: int) -> int:
    """The divisor of the hash in a file of `rows` rows: a power of two."""
    return 1 << min(MOST, max(1, rows // ROWS)).bit_length() - 1
