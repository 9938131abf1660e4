"""One Delta table: the one way to open it, read it, append to it and overwrite rows of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from pipelines.lake.data_file import CONFIGURATION, Written
from pipelines.lake.engines import MARK
from pipelines.lake.file_systems import StorageOptions, file_system, local_path

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as ds
    from deltalake import CommitProperties, DeltaTable, Field

Mode = Literal["append", "overwrite"]
Versions = Mapping[str, int]
"""By writer (Delta's app id) the version that it has reached with a commit."""


def exists(uri: str, storage_options: StorageOptions) -> bool:
    """Whether there is a Delta table at `uri`."""
    from deltalake import DeltaTable

    return bool(DeltaTable.is_deltatable(uri, storage_options=dict(storage_options)))


def open_table(uri: str, storage_options: StorageOptions, version: int | None = None) -> DeltaTable:
    """The table at `uri` as it is now, or as of a version. Raises TableNotFoundError."""
    from deltalake import DeltaTable

    return DeltaTable(uri, version=version, storage_options=dict(storage_options))


def create(uri: str, schema: pa.Schema, storage_options: StorageOptions) -> DeltaTable:
    """The table at `uri` as it is, made with this schema where there is none."""
    from deltalake import DeltaTable

    if exists(uri, storage_options):
        return open_table(uri, storage_options)
    return DeltaTable.create(
        uri, schema, mode="ignore", configuration=CONFIGURATION, storage_options=dict(storage_options)
    )


def add_columns(table: DeltaTable, schema: pa.Schema) -> DeltaTable:
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


def dataset(
    table: DeltaTable, schema: pa.Schema | None = None, reading: ds.ParquetReadOptions | None = None
) -> ds.Dataset:
    """The rows of a table for filters and projections.

    On a disk through pyarrow's own file system: deltalake's is made of Python objects, and a thread of pyarrow that
    lets go of one as the process ends aborts it ("terminate called without an active exception").
    """
    folder = file_system(table.table_uri) if local_path(table.table_uri) is not None else None
    return table.to_pyarrow_dataset(filesystem=folder, schema=schema, parquet_read_options=reading)


def append(
    table: DeltaTable | str,
    rows: pa.Table,
    versions: Versions | None = None,
    *,
    mark: str | None = None,
    storage_options: StorageOptions | None = None,
) -> None:
    """One commit that adds rows to an open table, or to the one at a URI, which is made where there is none.

    `versions` are those that its writers reach with it; `mark` is what hwmark says in it of its own upkeep.
    """
    from deltalake import write_deltalake

    properties, options = _properties(versions or {}, mark), dict(storage_options or {})
    with _own_commit_accepted(table, versions or {}):
        write_deltalake(
            table,
            rows,
            mode="append",
            configuration=CONFIGURATION,
            storage_options=options,
            commit_properties=properties,
        )


def overwrite(table: DeltaTable, rows: pa.Table, predicate: str, versions: Versions) -> None:
    """One commit that puts `rows` in place of those that match the SQL `predicate`."""
    from deltalake import write_deltalake

    with _own_commit_accepted(table, versions):
        write_deltalake(table, rows, mode="overwrite", predicate=predicate, commit_properties=_properties(versions))


def add_files(
    table: DeltaTable, files: Sequence[Written], schema: pa.Schema, versions: Versions, mode: Mode = "append"
) -> None:
    """One commit that adds Parquet files which stand in the table's folder already."""
    from deltalake.transaction import AddAction

    with _own_commit_accepted(table, versions, {file.path for file in files}):
        table.create_write_transaction(
            [AddAction(f.path, f.size, {}, f.written_ms, True, f.stats) for f in files],
            mode=mode,
            schema=schema,
            partition_by=[],
            commit_properties=_properties(versions),
        )


@contextmanager
def _own_commit_accepted(
    table: DeltaTable | str, versions: Versions, files: Collection[str] = frozenset()
) -> Iterator[None]:
    """Lets a conflict pass where the commit that it is with is this one: the table has its versions and files.

    A store may do what it is asked and then answer with an error: the client asks again and meets its own commit.
    """
    from deltalake.exceptions import CommitFailedError

    try:
        yield
    except CommitFailedError:
        if isinstance(table, str) or not versions:
            raise
        table.update_incremental()
        there = set(table.get_add_actions(flatten=True).column("path").to_pylist()) if files else set()
        reached = all(table.transaction_version(app_id) == version for app_id, version in versions.items())
        if not reached or not set(files) <= there:
            raise


def _properties(versions: Versions, mark: str | None = None) -> CommitProperties:
    from deltalake import CommitProperties, Transaction

    return CommitProperties(
        app_transactions=[Transaction(*item) for item in versions.items()],
        custom_metadata=None if mark is None else {MARK: mark},
    )
