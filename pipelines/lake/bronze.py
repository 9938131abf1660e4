"""Events to and from `bronze/replication_events`: every version of every writer lands exactly once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

from pipelines.errors import UsageError
from pipelines.lake.bucket_layout import COVERAGE, KEY, BucketLayout, by_bucket, coverage_text, divisor_of
from pipelines.lake.data_file import INDEXED, DataFile, Written, finishing, write_file
from pipelines.lake.engines import require_ours
from pipelines.lake.file_systems import StorageOptions, file_system
from pipelines.lake.lake import Lake
from pipelines.lake.row_groups import WORTH, row_groups
from pipelines.lake.table import add_columns, add_files, dataset
from pipelines.lake.writable import require_writable
from schemas import replication_events

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable
    from pyarrow.fs import FileSystem

Layout = Literal["order", "buckets"]
"""The order of rows in a file: as reported, or by the bucket of their partition."""
ROWS_OF_A_FILE = 4_000_000
"""The most rows of a file: a file is read in one micro-batch, so a larger commit becomes several files."""
ROWS_OF_A_GROUP = 1 << 20


def bronze(lake: str, storage_options: StorageOptions | None = None) -> DeltaTable:
    """The writable table of events, with all columns of its declared schema.

    Raises OtherEngineError, and UsageError if it is partitioned by a column without bounds in Delta's log.
    """
    table = opened(lake, storage_options)
    require_ours(table, lake)
    if others := set(table.metadata().partition_columns) - set(replication_events.ARROW.names[:INDEXED]):
        raise UsageError(
            f"bronze of lake {lake} is partitioned by {', '.join(sorted(others))}, and hwmark writes to one that is "
            f"partitioned by {', '.join(replication_events.ARROW.names[:INDEXED])} or not at all: partition it anew"
        )
    return add_columns(require_writable(table, ()), replication_events.TABLE.with_comments())


def opened(lake: str, storage_options: StorageOptions | None = None) -> DeltaTable:
    """The table of events as it is, created with its declared schema if it does not exist."""
    return Lake(lake, storage_options or {}).create(replication_events.TABLE)


def bronze_uri(lake: str) -> str:
    """The URI of a lake's table of events."""
    return Lake(lake).uri(replication_events.TABLE)


def append_events(
    lake: str,
    events: pa.Table,
    *,
    app_id: str,
    version: int,
    storage_options: StorageOptions | None = None,
    layout: Layout = "order",
) -> bool:
    """Append `events` (bronze schema) as `version` of writer `app_id`; returns False if it is already there."""
    last = committed(lake, [app_id], storage_options)[app_id]
    if last is not None and last >= version:
        return False
    append_round(lake, events, {app_id: version}, storage_options, layout)
    return True


def append_round(
    lake: str,
    events: pa.Table,
    versions: Mapping[str, int],
    storage_options: StorageOptions | None = None,
    layout: Layout = "order",
) -> None:
    """Append `events` in one commit that also records which version each writer has reached.

    Delta records versions but refuses no old ones: callers compare with `committed` first.
    """
    table, folder = bronze(lake, storage_options), file_system(bronze_uri(lake), storage_options)
    whole = events.cast(replication_events.ARROW).combine_chunks()
    files = [
        _written(folder, rows.slice(k, ROWS_OF_A_FILE), layout)
        for rows in _by_partition(whole, table.metadata().partition_columns)
        for k in range(0, len(rows), ROWS_OF_A_FILE)
    ]
    add_files(table, files, versions)


def _by_partition(events: pa.Table, columns: Sequence[str]) -> list[pa.Table]:
    """The rows of each partition of the table, in unchanged order."""
    import pyarrow.compute as pc

    if not columns:
        return [events]
    first, *more = columns
    each = (events.filter(pc.equal(events[first], value)) for value in events[first].unique())
    return [rows for part in each for rows in _by_partition(part, more)]


def _written(folder: FileSystem, events: pa.Table, layout: Layout) -> Written:
    """Write a file of events, with their coverage in its footer unless the file is small.

    A batch may take a part of a large file.
    """
    by_remainder = layout == "buckets" and divisor_of(len(events)) > 1
    if not by_remainder and len(events) < WORTH:
        return write_file(folder, "replication_events", events.schema, row_groups(events))
    from pipelines.replication.telemetry.coverage import coverage

    covered, filled = coverage(events), events.schema.names
    if by_remainder:
        groups, remainders = (list(parts) for parts in zip(*by_bucket(events), strict=True))
        filled, size = _filled(events), ROWS_OF_A_FILE
        layout_of_file = BucketLayout(divisor_of(len(events)), tuple(remainders), tuple(map(len, groups)), covered)
        key, text = KEY, layout_of_file.text
    else:
        groups, size = row_groups(events), ROWS_OF_A_GROUP
        rows = [min(size, len(group) - k) for group in groups for k in range(0, len(group), size)]
        key, text = COVERAGE, partial(coverage_text, rows, covered)
    with finishing(DataFile(folder, "replication_events", groups[0].select(filled).schema)) as file:
        for group in groups:
            file.write(group.select(filled), size)
        file.describe(key, text(file.size()))
        return file.close()


def _filled(events: pa.Table) -> list[str]:
    """The columns that have values: Delta's readers fill the others with null.

    Each task reads the whole footer, which has a description of each column for each row group.
    """
    return [f.name for f in events.schema if not f.nullable or events[f.name].null_count < len(events)]


def committed(
    lake: str, app_ids: Sequence[str], storage_options: StorageOptions | None = None
) -> dict[str, int | None]:
    """The last committed version of each writer, None for a writer without one."""
    table = opened(lake, storage_options)
    return {app_id: table.transaction_version(app_id) for app_id in app_ids}


def read_events(
    lake: str,
    *,
    columns: Sequence[str] | None = None,
    cluster: str | None = None,
    source_id: str | None = None,
    dictionaries: Sequence[str] = (),
    storage_options: StorageOptions | None = None,
) -> pa.Table:
    """The events of the lake, or of one cluster or source, in bronze schema.

    Columns named in `dictionaries` stay dictionary-encoded, as in the files.
    """
    import pyarrow.dataset as ds

    wanted = {"cluster": cluster, "source_id": source_id}
    keep = None
    for name, value in wanted.items():
        if value is not None:
            this = ds.field(name) == value
            keep = this if keep is None else keep & this
    reading = ds.ParquetReadOptions(dictionary_columns=set(dictionaries))
    data = dataset(opened(lake, storage_options), replication_events.ARROW, reading)
    return data.to_table(columns=list(columns) if columns else None, filter=keep)
