"""One Delta table: the one way to open it, read it, append to it and overwrite rows of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar

from pipelines.lake.data_file import CONFIGURATION, Written
from pipelines.lake.engines import MARK
from pipelines.lake.file_systems import StorageOptions, file_system, local_path

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as ds
    from deltalake import CommitProperties, DeltaTable, Field

T = TypeVar("T")
Mode = Literal["append", "overwrite"]
COMPACTION = "compaction"
"""How a commit of ours says under MARK that it only put rows into other files."""
TRIES = 20
"""So often a compaction is offered to a table that others commit to."""
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


def create(
    uri: str, schema: pa.Schema, storage_options: StorageOptions, properties: Mapping[str, str] | None = None
) -> DeltaTable:
    """The table at `uri` as it is, made with this schema, and these properties, where there is none."""
    from deltalake import DeltaTable

    if exists(uri, storage_options):
        return open_table(uri, storage_options)
    configuration = {**CONFIGURATION, **(properties or {})}
    return DeltaTable.create(
        uri, schema, mode="ignore", configuration=configuration, storage_options=dict(storage_options)
    )


def set_properties(table: DeltaTable, properties: Mapping[str, str]) -> None:
    """Has a table have these properties: one commit where any of them differs."""
    there = table.metadata().configuration
    if any(there.get(name) != value for name, value in properties.items()):
        table.alter.set_table_properties(dict(properties))


def reopening(table: DeltaTable, read: Callable[[], T]) -> T:
    """What `read` reads of a table; where a file is gone, as of the table as it is by then, once.

    A file that a version had is kept for a while after the version that replaced it (`[run] gold_retention`): who reads
    for longer meets it no more. One that the newest version lacks, too, is raised as it is.
    """
    try:
        return read()
    except Exception as error:
        if not is_missing_file(error):
            raise
        table.update_incremental()
        return read()


def is_missing_file(error: BaseException) -> bool:
    """Whether a read failed on a file that is not there, in the words of pyarrow, DuckDB or deltalake's engine."""
    words = str(error)
    gone = "os error 2)" in words or "[errno 2]" in words or "not found" in words
    return isinstance(error, FileNotFoundError) or (gone and ".parquet" in words)


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


def append(table: DeltaTable, rows: pa.Table, versions: Versions, mark: str) -> None:
    """One commit that adds rows to a table of anybody's, partitioned or not.

    `versions` are those that its writers reach with it; `mark` is what hwmark says in it of its own upkeep.
    """
    from deltalake import write_deltalake

    with _own_commit_accepted(table, versions):
        write_deltalake(table, rows, mode="append", commit_properties=_properties(versions, mark))


def overwrite(table: DeltaTable, rows: pa.Table, predicate: str, versions: Versions) -> None:
    """One commit that puts `rows` in place of those that match the SQL `predicate`."""
    from deltalake import write_deltalake

    with _own_commit_accepted(table, versions):
        write_deltalake(table, rows, mode="overwrite", predicate=predicate, commit_properties=_properties(versions))


def add_files(
    table: DeltaTable, files: Sequence[Written], schema: pa.Schema, versions: Versions, mode: Mode = "append"
) -> None:
    """One commit that adds Parquet files which stand in the table's folder already.

    One that overwrites takes away the files that `table` has: where a commit came after that, it raises
    CommitFailedError (the library would go on, and leave the files that a compaction has put in their place).
    """
    from deltalake.transaction import AddAction

    with _own_commit_accepted(table, versions, {file.path for file in files}):
        table.create_write_transaction(
            [AddAction(f.path, f.size, {}, f.written_ms, True, f.stats) for f in files],
            mode=mode,
            schema=schema,
            partition_by=[],
            commit_properties=_properties(versions, retries=0 if mode == "overwrite" else None),
        )


def committing(commit: Callable[[], None]) -> None:
    """Commits, and once more where a commit of another came in between, as `maintain` makes some while the job runs.

    `commit` opens the table itself and reads of it what it goes by.
    """
    from deltalake.exceptions import CommitFailedError

    try:
        commit()
    except CommitFailedError:
        commit()


@dataclass(frozen=True)
class Replaced:
    """A file of a table that another takes the place of: its path as Delta's log has it, and its size in bytes."""

    path: str
    size: int


def replace_files(table: DeltaTable, files: Sequence[Replaced], written: Written, schema: pa.Schema) -> None:
    """One commit that puts a file in place of others with the same rows: no row is new, and none is gone.

    What others append meanwhile stays. Raises CommitFailedError where somebody removed one of the files: the library
    does not ask that of files which are removed here, so each try is for the version that was looked at.
    """
    from deltalake.exceptions import CommitFailedError
    from deltalake.transaction import AddAction, RemoveAction

    now_ms = time.time_ns() // 1_000_000
    taken = [RemoveAction(file.path, False, now_ms, file.size, {}) for file in files]
    put = AddAction(written.path, written.size, {}, written.written_ms, False, written.stats)
    for tries_left in reversed(range(TRIES)):
        table.update_incremental()
        if not {file.path for file in files} <= set(table.get_add_actions(flatten=True).column("path").to_pylist()):
            raise CommitFailedError(f"a file of {table.table_uri} that was put together with others has been removed")
        try:
            with _own_commit_accepted(table, {}, {written.path}):
                table.create_write_transaction(
                    [put, *taken],
                    mode="append",
                    schema=schema,
                    partition_by=[],
                    commit_properties=_properties({}, COMPACTION, retries=0),
                )
            return
        except CommitFailedError:
            if not tries_left:
                raise


def has_declared(table: DeltaTable, schema: pa.Schema) -> bool:
    """Whether its files have all columns of its declared schema in their types, and no row that is not one of it.

    Files of a partitioned table lack a column; with a newer reader version they may have removed rows or other names.
    """
    from deltalake import Schema

    expected = {field.name: field.type for field in Schema.from_arrow(schema).fields}
    there = {field.name: field.type for field in table.schema().fields}
    same = all(there.get(name) == kind for name, kind in expected.items())
    return same and not table.metadata().partition_columns and table.protocol().min_reader_version == 1


def is_as_declared(table: DeltaTable, schema: pa.Schema) -> bool:
    """`has_declared`, and no other column: what is written anew by the schema loses nothing."""
    return has_declared(table, schema) and len(table.schema().fields) == len(schema)


@contextmanager
def _own_commit_accepted(table: DeltaTable, versions: Versions, files: Collection[str] = frozenset()) -> Iterator[None]:
    """Lets a conflict pass where the commit that it is with is this one: the table has its versions and files.

    A store may do what it is asked and then answer with an error: the client asks again and meets its own commit.
    """
    from deltalake.exceptions import CommitFailedError

    try:
        yield
    except CommitFailedError:
        if not versions and not files:
            raise
        table.update_incremental()
        there = set(table.get_add_actions(flatten=True).column("path").to_pylist()) if files else set()
        reached = all(table.transaction_version(app_id) == version for app_id, version in versions.items())
        if not reached or not set(files) <= there:
            raise


def _properties(versions: Versions, mark: str | None = None, retries: int | None = None) -> CommitProperties:
    from deltalake import CommitProperties, Transaction

    return CommitProperties(
        app_transactions=[Transaction(*item) for item in versions.items()],
        custom_metadata=None if mark is None else {MARK: mark},
        max_commit_retries=retries,
    )
