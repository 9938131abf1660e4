"""Compaction: many files of a table become few, each of one day if the table ages, and of one cluster in bronze.

A compacted file is sorted by partition, then time. Bronze, which is read in order of time, is sorted by minute, then
partition: it takes a quarter less than in the order of reporting, and up to a quarter more by second or microsecond.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import itemgetter
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pipelines.lake.bronze import ROWS_OF_A_FILE
from pipelines.lake.bronze import ROWS_OF_A_GROUP as ROWS_OF_A_GROUP_OF_BRONZE
from pipelines.lake.data_file import Written, write_file
from pipelines.lake.lake import Lake
from pipelines.lake.retention import BRONZE, TIMES
from pipelines.lake.row_groups import row_groups
from pipelines.lake.spans import DAY_US, Span, spans
from pipelines.lake.table import dataset, replace_files

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

TARGET_BYTES = 128 << 20
"""The target size in bytes: a file of this size stays as it is."""
AT_ONCE = 16
"""How many targets of files are sorted together, and cut into files of one target with a range of partitions each: a
query for one partition of a day opens one of them."""
LEFT_OVER = 4
"""A sorted file is sorted again with newer ones if it is smaller than this share of a target."""
ROWS_OF_A_GROUP = 1 << 17
COMPRESSION = "zstd"
"""Compacted files are written once and kept for months; with snappy, which the job writes because it is faster,
`silver/partition_hw` would be a tenth larger."""
MEMORY = "2GB"
"""DuckDB's memory limit, beyond which it sorts on disk, in the folder for temporary files."""
ORDER = ("cluster", "topic", "partition")
TIMES_OF_ALL = ("ts", "minute", "last_ts", "run_ts", "sent_at")
TIES = ("broker_id", "source_id", "source_epoch", "source_seq")
QUOTED_ALIKE = re.compile(r"(?:[A-Za-z0-9=/._-]|%25)*")
"""Paths that every engine writes alike into Delta's log: a removed file is named by its path there."""


@dataclass(frozen=True)
class Compacted:
    """The number of files before and after a compaction, and their bytes."""

    removed: int = 0
    added: int = 0
    bytes_before: int = 0
    bytes_after: int = 0

    def __add__(self, more: Compacted) -> Compacted:
        return Compacted(
            self.removed + more.removed,
            self.added + more.added,
            self.bytes_before + more.bytes_before,
            self.bytes_after + more.bytes_after,
        )


def compact(lake: Lake, name: str, target_bytes: int = TARGET_BYTES) -> Compacted:
    """Merge the small files of a table, in commits that change no row.

    Files of several days, of several clusters in bronze, or with text as `string_view` are split first. A merged file
    that is larger than its inputs is not committed. Raises CommitFailedError if another writer removed one of the files
    meanwhile.
    """
    done = Compacted()
    for split in (True, False):
        table = lake.open(name)
        kinds: dict[Key, list[Span]] = defaultdict(list)
        for span in spans(table, lake.files(name), TIMES.get(name)):
            if QUOTED_ALIKE.fullmatch(span.file.path):
                key = _key(name, span)
                if key is None and (not span.is_ours or not span.rows or _is_mixed(name, span)):
                    kinds[()].append(span)
                elif key is not None and not split and _is_small(name, span, target_bytes):
                    kinds[key].append(span)
        limits = (target_bytes, ROWS_OF_A_FILE) if name == BRONZE else (AT_ONCE * target_bytes, sys.maxsize)
        for key, files in kinds.items():
            for few in _bins(files, *limits):
                if split or (key and len(few) > 1):
                    done += _rewritten(lake, table, name, few, split, target_bytes)
    return done


Key = tuple[Any, ...]
"""The table's partition, cluster and day that all rows of a file share."""


def _key(name: str, span: Span) -> Key | None:
    """The key under which a file may be merged with others, None if its rows have several."""
    cluster = (span.cluster,) if name == BRONZE else ()
    day = (span.day,) if name in TIMES else ()
    return None if None in (*cluster, *day) or not span.is_plain else ("", *span.file.values.values(), *cluster, *day)


def _is_small(name: str, span: Span, target_bytes: int) -> bool:
    """Whether a file is small enough to be merged with others; a sorted one only if it is a small rest."""
    is_sorted = name != BRONZE and span.file.path.endswith(f".{COMPRESSION}.parquet")
    return span.file.size < (target_bytes // LEFT_OVER if is_sorted else target_bytes)


def _is_mixed(name: str, span: Span) -> bool:
    """Whether a file's rows are known to be of several days or clusters."""
    clusters = name == BRONZE and span.clusters[0] != span.clusters[1]
    return clusters or (name in TIMES and span.last is not None and span.day is None)


def order_of(schema: pa.Schema) -> list[str]:
    """The sort columns of a table: its partition, its time, and those that order rows of one time."""
    time = next(name for name in (*TIMES_OF_ALL, schema.names[0]) if name in schema.names)
    return [name for name in (*ORDER, time, *TIES) if name in schema.names]


def _bins(files: Iterable[Span], target_bytes: int, most_rows: int) -> Iterator[list[Span]]:
    """Groups of files to merge, taken in the order of writing so that a group covers a short time."""
    taken: list[Span] = []
    size = rows = 0
    for span in sorted(files, key=lambda one: one.written_ms):
        size, rows = size + span.file.size, rows + span.rows
        if taken and (size > target_bytes or rows > most_rows):
            yield taken
            taken, size, rows = [], span.file.size, span.rows
        taken.append(span)
    if taken:
        yield taken


def _rewritten(
    lake: Lake, table: DeltaTable, name: str, files: Sequence[Span], split: bool, target_bytes: int
) -> Compacted:
    """Replace files by new ones: sorted, or for a single key in the old order of rows if that is smaller."""
    size, folder = sum(span.file.size for span in files), lake.files(name)
    rows = sum(span.rows for span in files)
    most = ROWS_OF_A_FILE if name == BRONZE else -(-rows // max(1, -(-size // target_bytes)))
    for is_sorted in (True,) if split or name == BRONZE else (True, False):
        written = _sorted_files(lake, table, name, files, is_sorted, most)
        after = sum(file.size for file in written)
        if split or after <= size:
            replace_files(table, [span.file for span in files], written)
            return Compacted(len(files), len(written), size, after)
        for file in written:
            folder.delete_file(file.path)  # no commit named it
    return Compacted()


def _sorted_files(
    lake: Lake, table: DeltaTable, name: str, files: Sequence[Span], is_sorted: bool, most: int
) -> list[Written]:
    """Write all rows to new files, one for each key, or several if a key has more rows than a file may have."""
    import pyarrow as pa

    declared, folder, time = pa.schema(table.schema().to_arrow()), lake.files(name), TIMES.get(name)
    parts = list(dict.fromkeys([*table.metadata().partition_columns, *(["cluster"] if name == BRONZE else [])]))
    # Delta's log has bounds of the first columns.
    names = dict.fromkeys([*parts, *([time] if time else []), *declared.names])
    schema = pa.schema([declared.field(column) for column in names])
    size = ROWS_OF_A_GROUP_OF_BRONZE if name == BRONZE else ROWS_OF_A_GROUP
    with _rows(table, name, files, parts if is_sorted else None) as batches:
        tables = (pa.Table.from_batches([batch]).select(schema.names).cast(schema) for batch in batches)
        pieces = _pieces(tables, parts if is_sorted else (), time if is_sorted else None, max(1, most))
        return [
            write_file(folder, name, schema, _row_groups(name, map(itemgetter(1), rows), size), compression=COMPRESSION)
            for _, rows in groupby(pieces, itemgetter(0))
        ]


@contextmanager
def _rows(table: DeltaTable, name: str, files: Sequence[Span], parts: Sequence[str] | None) -> Iterator[Any]:
    """The rows of some files in sorted batches, first by `parts`; a column that an older file lacks is null."""
    import duckdb
    import pyarrow.dataset as ds

    paths = {unquote(span.file.path) for span in files}
    rows = dataset(table, reading=ds.ParquetReadOptions(coerce_int96_timestamp_unit="us"), keep=paths.__contains__)
    by = ""
    if parts is not None:
        first, order = [f'"{column}"' for column in parts], [f'"{column}"' for column in order_of(rows.schema)]
        time = [f"date_trunc('{'minute' if name == BRONZE else 'day'}', \"{TIMES[name]}\")"] if name in TIMES else []
        by = "ORDER BY " + ", ".join(f"{column} NULLS FIRST" for column in (*first, *time, *order))
    with (
        TemporaryDirectory(prefix="hwmark-compact-") as scratch,
        duckdb.connect(config={"temp_directory": scratch, "memory_limit": MEMORY}) as connection,
    ):
        connection.execute("SET enable_progress_bar = false; SET TimeZone = 'UTC'")
        connection.register("stored", _readable(rows) if name == BRONZE else rows)
        yield connection.sql(f"SELECT * FROM stored {by}").to_arrow_reader(ROWS_OF_A_GROUP)


def _readable(rows: Any) -> pa.RecordBatchReader:
    """The same rows, checked to be UTF-8: other writers may leave text that DuckDB would turn into anything."""
    import pyarrow as pa

    from pipelines.replication.events.columns import with_readable_text

    tables = (with_readable_text(pa.Table.from_batches([batch])) for batch in rows.to_batches())
    return pa.RecordBatchReader.from_batches(rows.schema, (batch for table in tables for batch in table.to_batches()))


def _pieces(
    tables: Iterable[pa.Table], parts: Sequence[str], time: str | None, most: int
) -> Iterator[tuple[Key, pa.Table]]:
    """The same rows, cut where the key changes and where a file is full."""
    import numpy as np

    last, count = None, 0
    for rows in tables:
        columns = [rows[part].combine_chunks().dictionary_encode("encode") for part in parts]
        codes = [column.indices.to_numpy() for column in columns]
        days = rows[time].cast("int64").fill_null(0).to_numpy() // DAY_US if time else np.zeros(len(rows), np.int64)
        changes = np.any([np.diff(code) != 0 for code in (*codes, days)], axis=0)
        for start, end in pairwise([0, *(np.flatnonzero(changes) + 1).tolist(), len(rows)]):
            key = (*(column[start].as_py() for column in columns), int(days[start]))
            count = count + end - start if key == last else end - start
            last = key
            before, at = count - (end - start), start
            while at < end:  # a piece ends where a file is full
                number = (before + at - start) // most
                until = min(end, start + (number + 1) * most - before)
                yield (*key, number), rows.slice(at, until - at)
                at = until


def _row_groups(name: str, tables: Iterable[pa.Table], size: int) -> Iterator[pa.Table]:
    """The same rows by row group, each of `rows` rows or some more.

    In bronze, rows with values in rare columns have a row group of their own.
    """
    import pyarrow as pa

    waiting: list[pa.Table] = []
    for rows in tables:
        waiting.append(rows)
        if sum(map(len, waiting)) >= size:
            yield from row_groups(pa.concat_tables(waiting)) if name == BRONZE else waiting
            waiting = []
    if waiting:
        yield from row_groups(pa.concat_tables(waiting)) if name == BRONZE else [pa.concat_tables(waiting)]
