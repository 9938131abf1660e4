"""The one sink of the query: Parquet straight from Arrow in the tasks, one commit per table in the driver's worker."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from generators.lock import verify_role
from pipelines.streaming import gold
from pipelines.streaming.packing import decode
from pipelines.streaming.tables import HEALTH, KINDS, MINUTES, ROLE, Lake, Written, commit, declared, statistics

FORMAT = "hwmark"
ROW_GROUP = 1 << 18


@dataclass
class TaskFiles(WriterCommitMessage):
    """What one task wrote: its files, first touched minute per cluster (microseconds), buckets that told health."""

    files: list[Written] = field(default_factory=list)
    touched: dict[str, int] = field(default_factory=dict)
    health: int = 0


@dataclass(frozen=True)
class SinkSettings:
    """All that the sink knows: it runs in workers of its own and is told by options only."""

    lake: str
    query_id: str
    buckets: int
    overwrite_first: bool = False
    storage_options: dict[str, str] = field(default_factory=dict)
    role_token: str | None = None

    def option(self) -> str:
        return json.dumps(self.__dict__)


class LakeSink(DataSource):
    """`writeStream.format("hwmark").option("settings", SinkSettings(...).option())`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def streamWriter(self, schema: StructType, overwrite: bool) -> LakeWriter:
        return LakeWriter(SinkSettings(**json.loads(self.options["settings"])))


class LakeWriter(DataSourceStreamArrowWriter):
    """Writes rows (kind, blob) of a micro-batch to the tables of the lake, once."""

    def __init__(self, settings: SinkSettings) -> None:
        self.settings = settings
        self.lake = Lake(settings.lake, settings.storage_options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskFiles:
        """One Parquet file per kind that has rows."""
        told = TaskFiles()
        outputs: dict[str, _Output] = {}
        try:
            for kind, blob in _rows(iterator):
                table = decode(blob)
                if kind == HEALTH:
                    told.health += 1
                elif kind == "minute_stats":
                    gold.touch(told.touched, table)
                if len(table):
                    if kind not in outputs:
                        outputs[kind] = _Output(self.lake, kind)
                    outputs[kind].add(table)
            told.files = [output.close() for output in outputs.values()]
        except BaseException:
            for output in outputs.values():
                output.discard()
            raise
        return told

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """One commit per table that has something new; a table that has the batch already stays as it is."""
        verify_role(self.settings.lake, ROLE, self.settings.role_token, self.settings.storage_options)
        tasks = [m for m in messages if isinstance(m, TaskFiles)]
        query_id, first = self.settings.query_id, self.settings.overwrite_first and batchId == 0
        for kind in KINDS:
            self._commit(kind, [f for t in tasks for f in t.files if f.kind == kind], batchId, first)
        if first:
            for kind in MINUTES:
                commit(self.lake, kind, [], query_id, batchId - 1, overwrite=True)
        gold.add_minutes(self.lake, gold.earliest(t.touched for t in tasks), query_id, batchId)
        if sum(t.health for t in tasks) == self.settings.buckets:
            self._commit(HEALTH, [f for t in tasks for f in t.files if f.kind == HEALTH], batchId, True)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Removes the files of tasks that had finished."""
        self._remove([f for m in messages if isinstance(m, TaskFiles) for f in m.files])

    def _commit(self, kind: str, files: list[Written], batch_id: int, overwrite: bool) -> None:
        if not files and not overwrite:
            return
        if not commit(self.lake, kind, files, self.settings.query_id, batch_id, overwrite=overwrite):
            self._remove(files)

    def _remove(self, files: list[Written]) -> None:
        for file in files:
            self.lake.files(file.kind).delete_file(file.path)


class _Output:
    """One growing Parquet file of one kind."""

    def __init__(self, lake: Lake, kind: str) -> None:
        self.kind, self.path = kind, f"part-{uuid.uuid4()}.snappy.parquet"
        self.schema = declared(kind).arrow()
        self.files = lake.files(kind)
        self._stream = self.files.open_output_stream(self.path)
        self._waiting: list[pa.Table] = []
        self._writer = pq.ParquetWriter(
            self._stream, self.schema, compression="snappy", use_dictionary=_repeating(self.schema)
        )

    def add(self, table: pa.Table) -> None:
        """A bucket has few rows of most kinds: those of several become one row group."""
        self._waiting.append(table.select(self.schema.names).cast(self.schema))
        if sum(map(len, self._waiting)) >= ROW_GROUP:
            self._write()

    def _write(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.concat_tables(self._waiting), row_group_size=2 * ROW_GROUP)
        self._waiting = []

    def close(self) -> Written:
        self._write()
        self._writer.close()
        self._stream.close()
        size = self.files.get_file_info(self.path).size
        metadata = self._writer.writer.metadata
        stats = statistics(metadata, self.schema)
        return Written(self.kind, self.path, size, metadata.num_rows, time.time_ns() // 1_000_000, stats)

    def discard(self) -> None:
        self._writer.close()
        self._stream.close()
        self.files.delete_file(self.path)


def _repeating(schema: pa.Schema) -> list[str]:
    """Columns as Parquet names them whose values repeat: all but times and offsets, which a dictionary only slows."""
    names = [f.name for f in schema if not (f.type == pa.int64() or pa.types.is_timestamp(f.type))]
    return [path for name in names for path in (name, f"{name}.list.element", f"{name}.key_value.key")]


def _rows(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, bytes]]:
    for batch in batches:
        for kind, blob in zip(batch["kind"].to_pylist(), batch["blob"], strict=True):
            yield kind, blob.as_buffer()
