"""The events of a bucket, read from bronze by the task that works on it: only the names of files pass through Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache

import pyarrow as pa

from pipelines.replication.events.columns import with_dictionaries
from pipelines.replication.events.sharding import assign
from pipelines.replication.telemetry import coverage as source_coverage
from pipelines.streaming.source.blobs import FILES, PACKED
from pipelines.streaming.source.bronze_commits import Part
from pipelines.streaming.source.bronze_log import BronzeLog
from pipelines.streaming.source.bronze_source import tables
from pipelines.streaming.source.compact_encoding import declared
from schemas import replication_events

ROWS = 1 << 17


def refer(files: Sequence[Part], keys: Sequence[int]) -> pa.RecordBatch:
    """Rows of PACKED that name to every bucket the files of bronze its events are in."""
    blob = json.dumps(list(files)).encode()
    return pa.RecordBatch.from_pylist([{"key": key, "kind": FILES, "blob": blob} for key in keys], PACKED)


class BucketRows:
    """Reads for the buckets of one task: those that leave the same remainder by the number of tasks."""

    def __init__(self, uri: str, storage_options: Mapping[str, str], buckets: int, tasks: int) -> None:
        self._log = BronzeLog(uri, storage_options)
        self._buckets, self._tasks = buckets, tasks
        self._rows: dict[int, pa.Table] = {}
        self._covered = source_coverage.COVERAGE.empty_table()

    def of(self, bucket: int, files: bytes) -> tuple[pa.Table, pa.Table]:
        """Events (bronze columns, names as dictionaries) of a bucket with the broker-wide ones, and what all cover.

        `files`: as `refer` wrote them. The first bucket of the task reads for all; each takes its own once.
        """
        if bucket not in self._rows:
            self._read(range(bucket % self._tasks, self._buckets, self._tasks), json.loads(files))
        return self._rows.pop(bucket), self._covered

    def _read(self, mine: Sequence[int], files: Sequence[Part]) -> None:
        parts: dict[int, list[pa.Table]] = {bucket: [] for bucket in mine}
        covered = [source_coverage.COVERAGE.empty_table()]
        for events in tables(self._log, [(part, None) for part in files]):
            covered.append(source_coverage.coverage(events))
            bucket_of = assign(events, self._buckets)
            for bucket in mine:
                parts[bucket].append(_whole(events.filter(pa.array((bucket_of == bucket) | (bucket_of < 0)))))
        empty = with_dictionaries(replication_events.ARROW.empty_table())
        self._rows = {bucket: pa.concat_tables(part or [empty]) for bucket, part in parts.items()}
        self._covered = pa.concat_tables(covered)


def _whole(events: pa.Table) -> pa.Table:
    """All columns of bronze: those that no row group had are null, and share their nulls."""
    columns = [
        events[field.name] if field.name in events.column_names else _nulls(len(events), declared(field))
        for field in replication_events.ARROW
    ]
    return pa.table(columns, names=replication_events.ARROW.names)


def _nulls(count: int, kind: pa.DataType) -> pa.ChunkedArray:
    full, rest = divmod(count, ROWS)
    return pa.chunked_array([*[_shared(kind)] * full, _shared(kind)[:rest]], kind)


@cache
def _shared(kind: pa.DataType) -> pa.Array:
    return pa.nulls(ROWS, kind)
