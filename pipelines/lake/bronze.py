"""Events to and from `bronze/replication_events`: every version of every writer lands exactly once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from pipelines.lake.data_file import CONFIGURATION, Written, write_file
from pipelines.lake.engines import require_ours
from pipelines.lake.file_systems import StorageOptions as StorageOptions
from pipelines.lake.file_systems import file_system, local_path
from pipelines.lake.row_groups import row_groups
from schemas import replication_events

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as ds
    from deltalake import CommitProperties, DeltaTable, Field
    from pyarrow.fs import FileSystem

Mode = Literal["append", "overwrite"]
ROWS_OF_A_FILE = 4_000_000
"""A file is read in one micro-batch: a commit of more rows can be read in several."""
ROWS_OF_A_GROUP = 1 << 20


def bronze(lake: str, storage_options: StorageOptions | None = None) -> DeltaTable:
    """The table of events of `lake`, to write to: with all columns of its declared schema. Raises OtherEngineError."""
    table = opened(lake, storage_options)
    require_ours(table, lake)
    return with_columns(table, replication_events.ARROW)


def opened(lake: str, storage_options: StorageOptions | None = None) -> DeltaTable:
    """The table of events of `lake` as it is, created with its declared schema where it does not exist."""
    from deltalake import DeltaTable

    uri = bronze_uri(lake)
    options = dict(storage_options or {})
    if DeltaTable.is_deltatable(uri, storage_options=options):
        return DeltaTable(uri, storage_options=options)
    return DeltaTable.create(
        uri,
        schema=replication_events.ARROW,
        mode="ignore",
        configuration=CONFIGURATION,
        storage_options=options,
    )


def bronze_uri(lake: str) -> str:
    """Where the table of events of a lake is."""
    return f"{lake.rstrip('/')}/{replication_events.TABLE.path}"


def dataset(
    table: DeltaTable,
    schema: pa.Schema | None = None,
    storage_options: StorageOptions | None = None,
    reading: ds.ParquetReadOptions | None = None,
) -> ds.Dataset:
    """The rows of a table for filters and projections.

    On a disk through pyarrow's own file system: deltalake's is made of Python objects, and a thread of pyarrow that
    lets go of one as the process ends aborts it ("terminate called without an active exception").
    """
    folder = file_system(table.table_uri, storage_options) if local_path(table.table_uri) is not None else None
    return table.to_pyarrow_dataset(filesystem=folder, schema=schema, parquet_read_options=reading)


def with_columns(table: DeltaTable, schema: pa.Schema) -> DeltaTable:
    """The table, with those columns of `schema` added that it lacks: it was made by an earlier version."""
    from deltalake.exceptions import CommitFailedError

    if _lacking(table, schema):
        try:
            table.alter.add_columns(_lacking(table, schema))
        except CommitFailedError:  # somebody else added them in the meantime, or it fails once more
            table.update_incremental()
            if _lacking(table, schema):
                table.alter.add_columns(_lacking(table, schema))
    return table


def _lacking(table: DeltaTable, schema: pa.Schema) -> list[Field]:
    from deltalake import Field

    there = {field.name for field in table.schema().fields}
    return [Field.from_arrow(field) for field in schema if field.name not in there]


def append_events(
    lake: str,
    events: pa.Table,
    *,
    app_id: str,
    version: int,
    storage_options: StorageOptions | None = None,
) -> bool:
    """Append `events` (bronze schema) as `version` of writer `app_id`; False where that version is there already."""
    last = committed(lake, [app_id], storage_options)[app_id]
    if last is not None and last >= version:
        return False
    append_round(lake, events, {app_id: version}, storage_options)
    return True


def append_round(
    lake: str,
    events: pa.Table,
    versions: Mapping[str, int],
    storage_options: StorageOptions | None = None,
) -> None:
    """Append `events` in one commit that also says which version each writer has reached.

    Delta records the versions and does not refuse old ones: callers compare with `committed` first.
    """
    table, folder = bronze(lake, storage_options), file_system(bronze_uri(lake), storage_options)
    rows = events.cast(replication_events.ARROW).combine_chunks()
    files = [_written(folder, rows.slice(k, ROWS_OF_A_FILE)) for k in range(0, len(rows), ROWS_OF_A_FILE)]
    _commit(table, files, versions)


def _written(folder: FileSystem, events: pa.Table) -> Written:
    return write_file(folder, "replication_events", events.schema, row_groups(events), ROWS_OF_A_GROUP)


def append_files(
    lake: str,
    files: Sequence[Written],
    versions: Mapping[str, int],
    storage_options: StorageOptions | None = None,
) -> None:
    """As `append_round`, for Parquet files that stand in the table's folder already."""
    _commit(bronze(lake, storage_options), files, versions)


def _commit(table: DeltaTable, files: Sequence[Written], versions: Mapping[str, int]) -> None:
    add_files(table, files, replication_events.ARROW, versions)


def add_files(
    table: DeltaTable, files: Sequence[Written], schema: pa.Schema, versions: Mapping[str, int], mode: Mode = "append"
) -> None:
    """One commit of these files that also says which version each writer has reached.

    A store may do what it is asked and then answer with an error: the client asks again and meets its own commit.
    """
    from deltalake.exceptions import CommitFailedError
    from deltalake.transaction import AddAction

    try:
        table.create_write_transaction(
            [AddAction(f.path, f.size, {}, f.written_ms, True, f.stats) for f in files],
            mode=mode,
            schema=schema,
            partition_by=[],
            commit_properties=reached(versions),
        )
    except CommitFailedError:
        table.update_incremental()
        there = set(table.get_add_actions(flatten=True).column("path").to_pylist()) if files else set()
        if not has_reached(table, versions) or not {f.path for f in files} <= there:
            raise


def has_reached(table: DeltaTable, versions: Mapping[str, int]) -> bool:
    """Whether a table says of each writer that it is at this version."""
    return all(table.transaction_version(app_id) == version for app_id, version in versions.items())


def reached(versions: Mapping[str, int]) -> CommitProperties:
    """The commit properties that say which version each writer has reached."""
    from deltalake import CommitProperties, Transaction

    return CommitProperties(app_transactions=[Transaction(*item) for item in versions.items()])


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
    data = dataset(opened(lake, storage_options), replication_events.ARROW, storage_options, reading)
    return data.to_table(columns=list(columns) if columns else None, filter=keep)
