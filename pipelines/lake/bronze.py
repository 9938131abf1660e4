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
"""How rows lie in a file: in the order in which they were reported, or by the bucket of their partition."""
ROWS_OF_A_FILE = 4_000_000
"""A file is read in one micro-batch: a commit of more rows can be read in several."""
ROWS_OF_A_GROUP = 1 << 20


def bronze(lake: str, storage_options: StorageOptions | None = None) -> DeltaTable:
    """The table of events of `lake`, to write to: with all columns of its declared schema.

    Raises OtherEngineError, and UsageError where it is partitioned by a column of which no bounds are kept.
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
    """The table of events of `lake` as it is, created with its declared schema where it does not exist."""
    return Lake(lake, storage_options or {}).create(replication_events.TABLE)


def bronze_uri(lake: str) -> str:
    """Where the table of events of a lake is."""
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
    """Append `events` (bronze schema) as `version` of writer `app_id`; False where that version is there already."""
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

    Delta records the versions and does not refuse old ones: callers compare with `committed` first.
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
    """The rows of each partition of the table; their order stays."""
    import pyarrow.compute as pc

    if not columns:
        return [events]
    first, *more = columns
    each = (events.filter(pc.equal(events[first], value)) for value in events[first].unique())
    return [rows for part in each for rows in _by_partition(part, more)]


def _written(folder: FileSystem, events: pa.Table, layout: Layout) -> Written:
    """A file of events. What they cover stands in its footer, unless it is small: a batch may take a part of it."""
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
    """The columns of a file: to readers of Delta those that it lacks are null, so it needs none without values.

    Each task reads the whole footer, which has a description of each column for each row group.
    """
    return [f.name for f in events.schema if not f.nullable or events[f.name].null_count < len(events)]


def committed(
    lake: str, app_ids: Sequence[str], storage_options: StorageOptions | None = None
) -> dict[str, int | None]:
    """The last version of each writer that is in the lake, None where there is none."""
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
    """Events of the lake as a table in bronze schema, or those of one cluster or source.

    Columns of few distinct words that `dictionaries` names stay dictionaries, as they lie in the files.
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
