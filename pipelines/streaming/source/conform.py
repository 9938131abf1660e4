"""Events of bronze from any writer in the declared types: cast without loss, or refused."""

from __future__ import annotations

import pyarrow as pa

from pipelines.replication.events.columns import with_readable_text
from pipelines.replication.events.foreign_types import ForeignColumnError, cast_column
from pipelines.streaming.source.blobs import column_type
from pipelines.streaming.source.suitable import UnreadableFileError
from schemas import replication_events


def conform(events: pa.Table, path: str, legacy_times: bool = False) -> pa.Table:
    """The same rows in the types of `column_type`; missing columns stay missing.

    `path`: the file, for the error. `legacy_times`: times are Spark's INT96, in UTC without a time zone. Raises
    UnreadableFileError if a value would change.
    """
    for at, field in enumerate(events.schema):
        column, kind = events[field.name], column_type(replication_events.ARROW.field(field.name))
        if legacy_times and pa.types.is_timestamp(field.type) and field.type.tz is None:
            column = column.cast(pa.timestamp(field.type.unit, "UTC"))
        try:
            events = events.set_column(at, field.name, cast_column(column, kind, field.name))
        except ForeignColumnError as error:
            raise UnreadableFileError(path, error) from error
    return with_readable_text(events)


def constant(name: str, value_in_log: str | None, rows: int) -> pa.ChunkedArray:
    """A partition column, which no file has; `value_in_log` is its value in Delta's log."""
    kind = column_type(replication_events.ARROW.field(name))
    value = pa.scalar(value_in_log or None, pa.string())
    if pa.types.is_dictionary(kind):
        column = pa.repeat(value, rows).dictionary_encode()
    else:
        column = pa.repeat(value.cast(kind), rows)
    return pa.chunked_array([column], kind)
