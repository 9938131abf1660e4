"""The events of one data file of bronze, from any writer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.replication.events.columns import NAMED
from pipelines.streaming.source.blobs import ALWAYS, ROWS_PER_BLOB
from pipelines.streaming.source.bronze_commits import Part
from pipelines.streaming.source.bronze_log import BronzeLog
from pipelines.streaming.source.conform import conform, constant
from pipelines.streaming.source.cut import cut_rows
from pipelines.streaming.source.suitable import UnreadableFileError
from schemas import replication_events

LEGACY_TIMES = "INT96"
"""Spark's default type of times: in UTC, without a time zone."""


def read(
    log: BronzeLog,
    part: Part,
    groups: Sequence[int] | None = None,
    footer: pq.FileMetaData | None = None,
    columns: Sequence[str] | None = None,
) -> Iterator[pa.Table]:
    """The events of the part, or of some row groups of it, in the types of `column_type`, without empty columns.

    `columns`: only these, if the file has them. `footer`: the footer, if it was read before. Raises
    UnreadableFileError, and VersionVanishedError if the file is gone.
    """
    path, values, cut = part
    wanted = {name: value for name, value in values.items() if name in replication_events.ARROW.names}
    with opened(log, path, NAMED, footer) as parquet:
        _require_columns(path, parquet, wanted)
        if "topic" not in parquet.schema_arrow.names:
            wanted.setdefault("topic", None)
        legacy = any(column.physical_type == LEGACY_TIMES for column in _columns(parquet))
        try:
            for group in range(parquet.metadata.num_row_groups) if groups is None else groups:
                present = _filled_columns(parquet.metadata.row_group(group))
                present = [name for name in present if name in columns] if columns else present
                for batch in parquet.iter_batches(
                    ROWS_PER_BLOB, row_groups=[group], columns=present, use_threads=False
                ):
                    events = _without_empty(conform(pa.Table.from_batches([batch]), path, legacy))
                    events = _with(events, wanted) if wanted else events
                    events = events.select([n for n in columns if n in events.column_names]) if columns else events
                    yield cut_rows(events, cut) if cut else events
        except (OSError, pa.ArrowException) as error:
            raise UnreadableFileError(path, error) from error


def footer_of(log: BronzeLog, part: Part) -> pq.FileMetaData:
    """The footer of the file. Raises as `read`."""
    with opened(log, part[0]) as parquet:
        return parquet.metadata


def opened(
    log: BronzeLog, path: str, dictionaries: Sequence[str] = (), footer: pq.FileMetaData | None = None
) -> pq.ParquetFile:
    """The opened file, with its footer. Raises as `read`."""
    try:
        file = log.opened(path)
        metadata = footer or pq.read_metadata(file)
        present = [name for name in dictionaries if name in metadata.schema.names]
        return pq.ParquetFile(file, metadata=metadata, read_dictionary=present, coerce_int96_timestamp_unit="us")
    except FileNotFoundError as gone:
        raise log.missing(path) from gone
    except (OSError, pa.ArrowException) as error:
        raise UnreadableFileError(path, error) from error


def _columns(parquet: pq.ParquetFile) -> Iterator[pq.ColumnSchema]:
    return (parquet.schema.column(k) for k in range(len(parquet.schema)))


def _require_columns(path: str, parquet: pq.ParquetFile, values: Mapping[str, str | None]) -> None:
    there = {*parquet.schema_arrow.names, *values}
    missing = [c.name for c in replication_events.TABLE.columns if not c.null and c.name not in there]
    if missing:
        raise UnreadableFileError(path, f"column {', '.join(missing)}: found none, expected one")


def _with(events: pa.Table, values: Mapping[str, str | None]) -> pa.Table:
    """The events with the columns that the file lacks, in the declared order."""
    present = {name: events[name] for name in events.column_names}
    present |= {name: constant(name, value, len(events)) for name, value in values.items()}
    return pa.table({name: present[name] for name in replication_events.ARROW.names if name in present})


def _without_empty(events: pa.Table) -> pa.Table:
    lists = [f.name for f in events.schema if pa.types.is_list(f.type)]
    return events.drop_columns([name for name in lists if events[name].null_count == len(events)])


def _filled_columns(group: pq.RowGroupMetaData) -> list[str]:
    """The columns with values in this row group by its statistics, and those always packed.

    Statistics count an empty list as no value.
    """
    empty = set()
    for index in range(group.num_columns):
        column = group.column(index)
        name, found = column.path_in_schema, column.statistics
        if "." not in name and found is not None and found.null_count == column.num_values:
            empty.add(name)
    present = {group.column(index).path_in_schema.split(".")[0] for index in range(group.num_columns)}
    return [name for name in replication_events.ARROW.names if name in present - (empty - ALWAYS)]
