"""The events of a bucket, read from bronze by its own task: only names of files pass through Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.lake.bucket_layout import BucketLayout, layout_of
from pipelines.replication.events.columns import with_dictionaries
from pipelines.replication.events.sharding import assign
from pipelines.replication.telemetry import coverage as source_coverage
from pipelines.streaming.source.blobs import FILES, PACKED, column_type
from pipelines.streaming.source.bronze_commits import Part
from pipelines.streaming.source.bronze_file import footer_of, read
from pipelines.streaming.source.bronze_log import BronzeLog
from pipelines.streaming.source.bronze_source import in_portions
from schemas import replication_events

ROWS = 1 << 17


def refer(files: Sequence[Part], keys: Sequence[int]) -> pa.RecordBatch:
    """Rows of PACKED with the bronze files that have a bucket's events, for every bucket."""
    blob = json.dumps(list(files)).encode()
    return pa.RecordBatch.from_pylist([{"key": key, "kind": FILES, "blob": blob} for key in keys], PACKED)


class BucketRows:
    """The reader for the buckets of one task, which leave the same remainder by the number of tasks."""

    def __init__(self, uri: str, storage_options: Mapping[str, str], buckets: int, tasks: int) -> None:
        self._log = BronzeLog(uri, storage_options)
        self._buckets, self._tasks = buckets, tasks
        self._rows: dict[int, pa.Table] = {}
        self._covered = source_coverage.COVERAGE.empty_table()

    def of(self, bucket: int, files: bytes) -> tuple[pa.Table, pa.Table]:
        """The events of a bucket (bronze columns, names as dictionaries) with the broker-wide ones, and their coverage.

        `files`: as `refer` wrote them. The first bucket of the task reads for all; each takes its own once.
        """
        if bucket not in self._rows:
            self._read(range(bucket % self._tasks, self._buckets, self._tasks), [Part(*p) for p in json.loads(files)])
        return self._rows.pop(bucket), self._covered

    def _read(self, mine: Sequence[int], files: Sequence[Part]) -> None:
        parts: dict[int, list[pa.Table]] = {bucket: [] for bucket in mine}
        covered = [source_coverage.COVERAGE.empty_table()]

        def by_bucket() -> Iterator[pa.Table]:
            for part in files:
                footer = footer_of(self._log, part)
                layout = layout_of(footer)
                if layout is None:
                    unknown.append((part, footer))
                else:
                    covered.append(_coverage(part, layout))
                    yield from read(self._log, part, layout.groups(self._buckets, mine), footer)

        unknown: list[tuple[Part, pq.FileMetaData]] = []
        self._take(in_portions(by_bucket()), parts)
        for events in in_portions(e for part, footer in unknown for e in read(self._log, part, footer=footer)):
            covered.append(source_coverage.coverage(events))
            self._take([events], parts)
        empty = with_dictionaries(replication_events.ARROW.empty_table())
        self._rows = {bucket: pa.concat_tables(part or [empty]) for bucket, part in parts.items()}
        self._covered = source_coverage.joined(pa.concat_tables(covered))

    def _take(self, portions: Iterable[pa.Table], parts: Mapping[int, list[pa.Table]]) -> None:
        """Give each bucket its rows and the broker-wide ones."""
        for events in portions:
            bucket_of = assign(events, self._buckets)
            for bucket, own in parts.items():
                own.append(_whole(events.filter(pa.array((bucket_of == bucket) | (bucket_of < 0)))))


def _coverage(part: Part, layout: BucketLayout) -> pa.Table:
    """The coverage of a part of a file, of which a task may read only some row groups."""
    if part.cut is None:
        return layout.coverage
    return pa.Table.from_pylist(part.cut["coverage"] or [], source_coverage.COVERAGE)


def _whole(events: pa.Table) -> pa.Table:
    """The events with all columns of bronze; those that no row group had share one array of nulls."""
    columns = [
        events[field.name] if field.name in events.column_names else _nulls(len(events), column_type(field))
        for field in replication_events.ARROW
    ]
    return pa.table(columns, names=replication_events.ARROW.names)


def _nulls(count: int, kind: pa.DataType) -> pa.ChunkedArray:
    full, rest = divmod(count, ROWS)
    return pa.chunked_array([*[_shared(kind)] * full, _shared(kind)[:rest]], kind)


@cache
def _shared(kind: pa.DataType) -> pa.Array:
    return pa.nulls(ROWS, kind)
