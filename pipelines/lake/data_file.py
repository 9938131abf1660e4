"""Parquet files in a Delta table's folder, which belong to the table once a commit names them."""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileSystem

DIFFERENCES = "DELTA_BINARY_PACKED"


def counted(schema: pa.Schema) -> list[str]:
    """The columns of times and 64-bit numbers: as differences they take a quarter and read twice as fast.

    All other columns have repeated values and are kept as dictionaries.
    """
    return [f.name for f in schema if f.type == pa.int64() or pa.types.is_timestamp(f.type)]


NAME = re.compile(r"part-[0-9a-f-]{36}\.\w+\.parquet")
"""The pattern of our files' names; other engines number theirs, too."""
INDEXED = 8
# off: options that the Spark reader and the Rust writer of one table do not both understand
CONFIGURATION = {"delta.enableDeletionVectors": "false", "delta.dataSkippingNumIndexedCols": str(INDEXED)}


@dataclass(frozen=True)
class Written:
    """A finished file of the table `kind`: its path below the table's folder, and its entry in Delta's log."""

    kind: str
    path: str
    size: int
    rows: int
    written_ms: int
    stats: str


class DataFile:
    """A growing file of the table `kind`; each written table adds one or more row groups."""

    def __init__(self, folder: FileSystem, kind: str, schema: pa.Schema, compression: str = "snappy") -> None:
        self.kind, self.path, self.schema = kind, f"part-{uuid.uuid4()}.{compression}.parquet", schema
        self._folder = folder
        self._stream = folder.open_output_stream(self.path)
        self._writer = pq.ParquetWriter(
            self._stream, schema, compression=compression, store_schema=False, use_dictionary=_repeating(schema),
            column_encoding=dict.fromkeys(counted(schema), DIFFERENCES),
        )  # fmt: skip

    def write(self, table: pa.Table, rows_of_a_group: int | None = None) -> None:
        """Append rows in the file's schema."""
        self._writer.write_table(table, rows_of_a_group)

    def size(self) -> int:
        """The bytes written so far."""
        return int(self._stream.tell())

    def describe(self, key: bytes, text: str) -> None:
        """Add a key and its text to the footer."""
        self._writer.add_key_value_metadata({key: text})

    def close(self) -> Written:
        """Close the file and return its description."""
        self._writer.close()
        self._stream.close()
        size = self._folder.get_file_info(self.path).size
        metadata = self._writer.writer.metadata
        stats = statistics(metadata, self.schema)
        return Written(self.kind, self.path, size, metadata.num_rows, time.time_ns() // 1_000_000, stats)

    def discard(self) -> None:
        """Remove the unfinished file."""
        self._writer.close()
        self._stream.close()
        self._folder.delete_file(self.path)


def write_file(
    folder: FileSystem,
    kind: str,
    schema: pa.Schema,
    tables: Iterable[pa.Table],
    compression: str = "snappy",
) -> Written:
    """Write a file of these tables; if that fails, nothing of it is left."""
    with finishing(DataFile(folder, kind, schema, compression)) as file:
        for table in tables:
            file.write(table)
        return file.close()


@contextmanager
def finishing(file: DataFile) -> Iterator[DataFile]:
    """Remove the file if the block raises."""
    try:
        yield file
    except BaseException:
        file.discard()
        raise


def _repeating(schema: pa.Schema) -> list[str]:
    """Parquet's names of the columns that are kept as dictionaries."""
    names = [name for name in schema.names if name not in counted(schema)]
    return [path for name in names for path in (name, f"{name}.list.element", f"{name}.key_value.key")]


def statistics(metadata: pq.FileMetaData, schema: pa.Schema) -> str:
    """Delta's statistics of one file as JSON: number of rows, least and largest values of its first INDEXED columns."""
    least: dict[str, Any] = {}
    largest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for index in range(metadata.num_columns):
        name = metadata.schema.column(index).path
        found = [metadata.row_group(g).column(index).statistics for g in range(metadata.num_row_groups)]
        if name not in schema.names[:INDEXED] or any(s is None or not s.has_null_count for s in found):
            continue
        nulls[name] = sum(s.null_count for s in found)
        ranges = [s for s in found if s.has_min_max]
        if ranges and _comparable(schema.field(name).type):
            with suppress(OverflowError, ValueError):  # a time beyond the year 9999, or text that is not UTF-8
                bounds = _json(min(s.min for s in ranges)), _json(max(s.max for s in ranges), up=True)
                least[name], largest[name] = bounds
    return json.dumps({"numRecords": metadata.num_rows, "minValues": least, "maxValues": largest, "nullCount": nulls})


def _comparable(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_timestamp(kind))


def _json(value: Any, up: bool = False) -> Any:
    """A time in milliseconds, as in Delta's statistics; the largest is rounded up, so that it bounds every row."""
    if not isinstance(value, datetime):
        return value
    if up and value.microsecond % 1000:
        value += timedelta(milliseconds=1)
    return value.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
