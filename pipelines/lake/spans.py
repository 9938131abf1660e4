"""The times and clusters of each data file of a table: from Delta's log, else from the file's footer."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pipelines.lake.data_file import NAME
from pipelines.lake.delta_log import AT_ONCE
from pipelines.lake.table import Replaced

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyarrow.fs import FileSystem

DAY_US = 86_400_000_000
ROUNDED_US = 1000
"""The precision of times in Delta's log: its largest one may be this far after, or before, that of the rows."""


@dataclass(frozen=True)
class Span:
    """A file, its time of writing, and the bounds of its times (microseconds since 1970) and clusters, None if unknown.

    `is_plain` if its text has no type that only deltalake writes.
    """

    file: Replaced
    rows: int
    written_ms: int
    first: int | None = None
    last: int | None = None
    clusters: tuple[str | None, str | None] = (None, None)
    is_plain: bool = True

    @property
    def is_ours(self) -> bool:
        return NAME.fullmatch(self.file.path.rpartition("/")[2]) is not None

    @property
    def day(self) -> int | None:
        """The one day (since 1970) of all rows, None if there are several or they are not known."""
        if self.first is None or self.last is None:
            return None
        day = self.first // DAY_US
        return day if max(self.first, self.last - ROUNDED_US) // DAY_US == day else None

    @property
    def cluster(self) -> str | None:
        """The one cluster of all rows, None if there are several or they are not known."""
        return self.clusters[0] if self.clusters[0] == self.clusters[1] else None

    def ends_before(self, limit_us: int) -> bool:
        """Whether every row is older."""
        return self.last is not None and self.last + ROUNDED_US <= limit_us


def spans(table: DeltaTable, folder: FileSystem, time: str | None) -> list[Span]:
    """The spans of a table's present files by its column `time`."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(lambda span: _by_footer(span, folder, time), _by_log(table, time)))


def _by_log(table: DeltaTable, time: str | None) -> Iterator[Span]:
    import pyarrow as pa

    present = pa.table(table.get_add_actions(flatten=True))
    parts = table.metadata().partition_columns
    wanted = ["path", "size_bytes", "modification_time", "num_records", "min.cluster", "max.cluster"]
    columns = [_column(present, name) for name in wanted]
    columns += [_column(present, f"{end}.{time}", pa.timestamp("us", "UTC")) for end in ("min", "max")]
    columns += [_column(present, f"partition.{name}") for name in parts]
    for path, size, written_ms, rows, least, most, first, last, *values in zip(*columns, strict=True):
        of = {name: None if v is None else str(v) for name, v in zip(parts, values, strict=True)}
        clusters = (of["cluster"], of["cluster"]) if "cluster" in of else (least, most)
        count = -1 if rows is None else rows
        yield Span(Replaced(path, size, of), count, written_ms or 0, first, last, clusters)


def _column(present: Any, name: str, time: Any = None) -> list[Any]:
    if name not in present.column_names:
        return [None] * present.num_rows
    column = present[name]
    return list((column if time is None else column.cast(time).cast("int64")).to_pylist())


def _by_footer(span: Span, folder: FileSystem, time: str | None) -> Span:
    """The span, with bounds from the file's footer."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    known = None not in ((span.last if time else 0), *span.clusters) and span.rows >= 0
    if span.is_ours and known:
        return span
    with folder.open_input_file(unquote(span.file.path)) as file:
        parquet = pq.ParquetFile(file)
        bounds = {name: _bounds(parquet.metadata, name) for name in ("cluster", time) if name}
        is_plain = "_view" not in str(parquet.schema_arrow)
        rows = parquet.metadata.num_rows
    clusters = span.clusters if span.clusters[0] is not None else bounds["cluster"] or (None, None)
    first, last = span.first, span.last
    if last is None and time and bounds[time] is not None:
        with suppress(pa.ArrowException):
            first, last = pa.array(bounds[time], pa.timestamp("us", "UTC")).cast("int64").to_pylist()
    return replace(span, rows=rows, first=first, last=last, clusters=clusters, is_plain=is_plain)


def _bounds(metadata: Any, name: str) -> tuple[Any, Any] | None:
    """The least and largest value of a column, None if a row group has none or Python has no type for it."""
    index = next((k for k in range(metadata.num_columns) if metadata.schema.column(k).path == name), None)
    if index is None or not metadata.num_rows:
        return None
    try:
        found = [metadata.row_group(k).column(index).statistics for k in range(metadata.num_row_groups)]
        if any(one is None or not one.has_min_max for one in found):
            return None
        return min(one.min for one in found), max(one.max for one in found)
    except (OverflowError, ValueError):
        return None
