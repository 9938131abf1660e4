"""Functions to open, read, append to and overwrite one Delta table; there is no other way."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeVar
from urllib.parse import unquote

from pipelines.errors import UsageError
from pipelines.lake.data_file import CONFIGURATION, NAME, Written
from pipelines.lake.delta_log import AT_ONCE
from pipelines.lake.durable_log import durable, has_torn_commit, mend, no_hooks, sync_files, sync_new_table
from pipelines.lake.engines import MARK
from pipelines.lake.file_systems import StorageOptions, file_system, local_path
from pipelines.lake.writable import REMOVES, REWRITES, require_writable

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as ds
    from deltalake import CommitProperties, DeltaTable, Field
    from deltalake.transaction import AddAction

T = TypeVar("T")
Mode = Literal["append", "overwrite"]
COMPACTION, RETENTION = "compaction", "retention"
"""The values under MARK of commits that only moved rows into other files, or only removed old files."""
AGAIN = "again:"
"""The prefix, before a cluster, of the mark of a commit that moved its rows to files of their own, to be read again."""
TRIES = 20
"""Attempts to commit a compaction to a table that others write."""
ARROW_SCHEMA, HIDDEN = b"ARROW:schema", b"arrow:schema"
"""The footer key of Arrow's own types, and one that Arrow ignores."""
Versions = Mapping[str, int]
"""The version that each writer (Delta's app id) reaches with a commit."""


def exists(uri: str, storage_options: StorageOptions) -> bool:
    """Whether there is a Delta table at `uri`."""
    from deltalake import DeltaTable

    return bool(DeltaTable.is_deltatable(uri, storage_options=dict(storage_options)))


def open_table(uri: str, storage_options: StorageOptions, version: int | None = None) -> DeltaTable:
    """The table at `uri` as it is now, or as of a version. Raises TableNotFoundError."""
    from deltalake import DeltaTable

    return DeltaTable(uri, version=version, storage_options=dict(storage_options))


def create(
    uri: str,
    schema: pa.Schema,
    storage_options: StorageOptions,
    properties: Mapping[str, str] | None = None,
    words: str | None = None,
) -> DeltaTable:
    """The table at `uri`; if there is none, it is made with this schema, these properties and the description `words`.

    A newest commit that a power failure cut off is set aside.
    """
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    if exists(uri, storage_options):
        try:
            found = open_table(uri, storage_options)
            torn = has_torn_commit(uri, found.version()) and mend(uri)
        except DeltaError:
            if not (torn := mend(uri)):
                raise
        return create(uri, schema, storage_options, properties, words) if torn else found
    configuration = {**CONFIGURATION, **(properties or {})}
    made = DeltaTable.create(
        uri,
        schema,
        mode="ignore",
        configuration=configuration,
        storage_options=dict(storage_options),
        description=words,
        raise_if_key_not_exists=False,
    )
    sync_new_table(uri)
    return made


def set_properties(table: DeltaTable, properties: Mapping[str, str]) -> None:
    """Set properties of a table, in one commit if any of them differs."""
    there = table.metadata().configuration
    if any(there.get(name) != value for name, value in properties.items()):
        with durable(table):
            table.alter.set_table_properties(dict(properties))


def reopening(table: DeltaTable, read: Callable[[], T]) -> T:
    """The result of `read` on a table, which is opened once more if a file is gone.

    A replaced file is kept for a while (`[run] gold_retention`); a longer read finds it gone. If a file of the newest
    version is missing, too, the error is raised.
    """
    try:
        return read()
    except Exception as error:
        if not is_missing_file(error):
            raise
        table.update_incremental()
        return read()


def is_missing_file(error: BaseException) -> bool:
    """Whether a read failed on a missing file, by the messages of pyarrow, DuckDB or deltalake's engine."""
    words = str(error)
    gone = "os error 2)" in words or "[errno 2]" in words or "not found" in words
    return isinstance(error, FileNotFoundError) or (gone and ".parquet" in words)


def add_columns(table: DeltaTable, schema: pa.Schema) -> DeltaTable:
    """The table, with the missing columns of `schema` added: an earlier version made it."""
    from deltalake.exceptions import CommitFailedError

    if _lacking(table, schema):
        with durable(table):
            try:
                table.alter.add_columns(_lacking(table, schema))
            except CommitFailedError:  # another process added them meanwhile, or it fails again
                table.update_incremental()
                if _lacking(table, schema):
                    table.alter.add_columns(_lacking(table, schema))
    return table


def _lacking(table: DeltaTable, schema: pa.Schema) -> list[Field]:
    from deltalake import Field

    there = {field.name for field in table.schema().fields}
    return [Field.from_arrow(field) for field in schema if field.name not in there]


def dataset(
    table: DeltaTable,
    schema: pa.Schema | None = None,
    reading: ds.ParquetReadOptions | None = None,
    keep: Callable[[str], bool] = lambda path: True,
) -> ds.Dataset:
    """The rows of a table, or of its files whose paths `keep` accepts, as a dataset for filters and projections.

    On a disk it uses pyarrow's own file system: deltalake's has Python objects, and a pyarrow thread that releases one
    while the process ends aborts it ("terminate called without an active exception").
    """
    folder = file_system(table.table_uri) if local_path(table.table_uri) is not None else None
    rows = table.to_pyarrow_dataset(filesystem=folder, schema=schema, parquet_read_options=reading)
    return with_plain_text(rows, keep)


def with_plain_text(rows: ds.FileSystemDataset, keep: Callable[[str], bool] = lambda path: True) -> ds.Dataset:
    """The same rows, without text of Arrow's type `string_view`.

    deltalake writes that type when it deletes or merges, and Arrow cannot compare it with other text. Such a file is
    read as if it had no Arrow schema.
    """
    import pyarrow as pa
    import pyarrow.dataset as ds

    def plain(part: ds.FileFragment) -> ds.FileFragment:
        if NAME.fullmatch(part.path.rpartition("/")[2]) or "_view" not in str(part.physical_schema):
            return part
        with part.open() as file:
            before, _, after = file.read().rpartition(ARROW_SCHEMA)
        whole = pa.BufferReader(before + HIDDEN + after)
        return rows.format.make_fragment(whole, partition_expression=part.partition_expression)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        parts = list(pool.map(plain, [part for part in rows.get_fragments() if keep(part.path)]))
    return ds.FileSystemDataset(parts, rows.schema, rows.format, rows.filesystem)


def append(table: DeltaTable, rows: pa.Table, versions: Versions, mark: str) -> None:
    """Append rows to any table, partitioned or not, in one commit.

    `versions` are those that its writers reach with it; `mark` is hwmark's mark of upkeep.
    """
    from deltalake import write_deltalake

    hooks, properties = no_hooks(table.table_uri), _properties(versions, mark)
    with _own_commit_accepted(table, versions):
        write_deltalake(
            table, rows, mode="append", commit_properties=properties, post_commithook_properties=hooks
        )  # fmt: skip


def add_files(table: DeltaTable, files: Sequence[Written], versions: Versions, mode: Mode = "append") -> None:
    """Add Parquet files that are already in the table's folder, in one commit.

    An overwriting commit removes the files of `table` and raises CommitFailedError if another commit came after that
    (the library would go on, and keep the files of a compaction). Raises UsageError if a file has several values of a
    column by which the table is partitioned.
    """
    require_writable(table, REWRITES if mode == "overwrite" else ())
    added = [_added(table, file, data_change=True) for file in files]
    sync_files(table.table_uri, (file.path for file in files))
    with _own_commit_accepted(table, versions, {file.path for file in files}):
        table.create_write_transaction(
            added,
            mode=mode,
            schema=table.schema(),  # a schema without comments would replace the one with them
            partition_by=table.metadata().partition_columns,
            commit_properties=_properties(versions, retries=0 if mode == "overwrite" else None),
            post_commithook_properties=no_hooks(table.table_uri),
        )


def _added(table: DeltaTable, file: Written, *, data_change: bool) -> AddAction:
    from deltalake.transaction import AddAction

    values = partition_values(table, file)
    return AddAction(file.path, file.size, values, file.written_ms, data_change, file.stats)


def partition_values(table: DeltaTable, file: Written) -> dict[str, str | None]:
    """The partition values of a file, from the bounds of its columns."""
    stats, values = json.loads(file.stats), {}
    for name in table.metadata().partition_columns:
        least, most = (stats.get(bounds, {}).get(name) for bounds in ("minValues", "maxValues"))
        nulls = stats.get("nullCount", {}).get(name)
        if least != most or nulls is None or 0 < nulls < file.rows:
            raise UsageError(
                f"{table.table_uri} is partitioned by {name}, and a file to be added has several values of it, or does "
                "not say which: partition it by cluster, or not at all"
            )
        values[name] = None if least is None else str(least)
    return values


def committing(commit: Callable[[], None]) -> None:
    """Commit, and try once more if another commit came in between; `maintain` makes some while the job runs.

    `commit` opens the table itself, so that the second try starts from its present state.
    """
    from deltalake.exceptions import CommitFailedError

    try:
        commit()
    except CommitFailedError:
        commit()


@dataclass(frozen=True)
class Replaced:
    """A file that a commit removes: its path in Delta's log, its bytes and its partition values."""

    path: str
    size: int
    values: Mapping[str, str | None] = field(default_factory=dict)


def replace_files(
    table: DeltaTable,
    files: Sequence[Replaced],
    written: Sequence[Written] = (),
    mark: str | None = COMPACTION,
    versions: Versions | None = None,
) -> None:
    """Replace files by others in one commit; with COMPACTION, the others have the same rows.

    Rows appended meanwhile stay. Raises CommitFailedError if another writer removed one of the files: the library does
    not check that, so each try is for the version that was read here.
    """
    from deltalake.exceptions import CommitFailedError
    from deltalake.transaction import RemoveAction

    now_ms, news = time.time_ns() // 1_000_000, mark != COMPACTION
    require_writable(table, () if not news else REWRITES if written else REMOVES)
    # The library quotes paths of removed files as it does those of added ones.
    taken = [RemoveAction(unquote(file.path), news, now_ms, file.size, dict(file.values)) for file in files]
    put = [_added(table, file, data_change=news) for file in written]
    sync_files(table.table_uri, (file.path for file in written))
    for tries_left in reversed(range(TRIES)):
        table.update_incremental()
        if not {file.path for file in files} <= set(table.get_add_actions(flatten=True).column("path").to_pylist()):
            raise CommitFailedError(f"a file of {table.table_uri} that was to be replaced has been removed")
        try:
            with _own_commit_accepted(table, versions or {}, {file.path for file in written}):
                table.create_write_transaction(
                    [*put, *taken],
                    mode="append",
                    schema=table.schema(),
                    partition_by=table.metadata().partition_columns,
                    commit_properties=_properties(versions or {}, mark, retries=0),
                    post_commithook_properties=no_hooks(table.table_uri),
                )
            return
        except CommitFailedError:
            if not tries_left:
                raise


def has_declared(table: DeltaTable, schema: pa.Schema) -> bool:
    """Whether a table's files have all declared columns in their types, and only rows of the table.

    Files of a partitioned table lack a column; with a newer reader version, rows may be deleted or columns renamed.
    """
    from deltalake import Schema

    expected = {field.name: field.type for field in Schema.from_arrow(schema).fields}
    there = {field.name: field.type for field in table.schema().fields}
    same = all(there.get(name) == kind for name, kind in expected.items())
    return same and not table.metadata().partition_columns and table.protocol().min_reader_version == 1


@contextmanager
def _own_commit_accepted(table: DeltaTable, versions: Versions, files: Collection[str] = frozenset()) -> Iterator[None]:
    """Accept a conflict with our own commit, whose versions and files the table has.

    A store may carry out a request and answer with an error: the client repeats it and meets its own commit. At the end
    of the `with` block the commit outlives a power failure.
    """
    from deltalake.exceptions import CommitFailedError

    with durable(table):
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
