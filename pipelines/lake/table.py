"""One Delta table: the one way to open it, read it, append to it and overwrite rows of it."""

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
"""How a commit of ours says under MARK that it only put rows into other files, or took away files that are old."""
AGAIN = "again:"
"""With this and a cluster begins that of a commit that put its rows into files of their own, to be read again."""
TRIES = 20
"""So often a compaction is offered to a table that others commit to."""
ARROW_SCHEMA, HIDDEN = b"ARROW:schema", b"arrow:schema"
"""The key in a footer under which Arrow keeps its own types, and one that Arrow does not look at."""
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
    uri: str,
    schema: pa.Schema,
    storage_options: StorageOptions,
    properties: Mapping[str, str] | None = None,
    words: str | None = None,
) -> DeltaTable:
    """The table at `uri` as it is, made with this schema, these properties and `words` about it, where there is none.

    What a power failure left of its newest commit, which nobody has gone by, is set aside.
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
    """Has a table have these properties: one commit where any of them differs."""
    there = table.metadata().configuration
    if any(there.get(name) != value for name, value in properties.items()):
        with durable(table):
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
        with durable(table):
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
    table: DeltaTable,
    schema: pa.Schema | None = None,
    reading: ds.ParquetReadOptions | None = None,
    keep: Callable[[str], bool] = lambda path: True,
) -> ds.Dataset:
    """The rows of a table, or those of the files whose paths `keep` says yes to, for filters and projections.

    On a disk through pyarrow's own file system: deltalake's is made of Python objects, and a thread of pyarrow that
    lets go of one as the process ends aborts it ("terminate called without an active exception").
    """
    folder = file_system(table.table_uri) if local_path(table.table_uri) is not None else None
    rows = table.to_pyarrow_dataset(filesystem=folder, schema=schema, parquet_read_options=reading)
    return with_plain_text(rows, keep)


def with_plain_text(rows: ds.FileSystemDataset, keep: Callable[[str], bool] = lambda path: True) -> ds.Dataset:
    """The same rows, none of which has text of Arrow's type `string_view`.

    deltalake leaves it where it deletes, merges or is given it, and Arrow compares it with no other text. Such a file
    is read as one that does not say which of Arrow's types it was written from.
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
    """One commit that adds rows to a table of anybody's, partitioned or not.

    `versions` are those that its writers reach with it; `mark` is what hwmark says in it of its own upkeep.
    """
    from deltalake import write_deltalake

    hooks, properties = no_hooks(table.table_uri), _properties(versions, mark)
    with _own_commit_accepted(table, versions):
        write_deltalake(
            table, rows, mode="append", commit_properties=properties, post_commithook_properties=hooks
        )  # fmt: skip


def add_files(table: DeltaTable, files: Sequence[Written], versions: Versions, mode: Mode = "append") -> None:
    """One commit that adds Parquet files which stand in the table's folder already.

    One that overwrites takes away the files that `table` has: where a commit came after that, it raises
    CommitFailedError (the library would go on, and leave the files that a compaction has put in their place).
    Raises UsageError where the table is partitioned by what a file has several values of.
    """
    require_writable(table, REWRITES if mode == "overwrite" else ())
    added = [_added(table, file, data_change=True) for file in files]
    sync_files(table.table_uri, (file.path for file in files))
    with _own_commit_accepted(table, versions, {file.path for file in files}):
        table.create_write_transaction(
            added,
            mode=mode,
            schema=table.schema(),  # a schema without the comments would replace that with them
            partition_by=table.metadata().partition_columns,
            commit_properties=_properties(versions, retries=0 if mode == "overwrite" else None),
            post_commithook_properties=no_hooks(table.table_uri),
        )


def _added(table: DeltaTable, file: Written, *, data_change: bool) -> AddAction:
    from deltalake.transaction import AddAction

    values = partition_values(table, file)
    return AddAction(file.path, file.size, values, file.written_ms, data_change, file.stats)


def partition_values(table: DeltaTable, file: Written) -> dict[str, str | None]:
    """The values by which a file belongs to a partition of the table, from the bounds of its columns."""
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
    """A file that a commit takes away: its path as Delta's log has it, its bytes, and its values as a partition."""

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
    """One commit that takes files away, and puts others in their place: a COMPACTION those of the same rows.

    What others append meanwhile stays. Raises CommitFailedError where somebody removed one of the files: the library
    does not ask that of files which are removed here, so each try is for the version that was looked at.
    """
    from deltalake.exceptions import CommitFailedError
    from deltalake.transaction import RemoveAction

    now_ms, news = time.time_ns() // 1_000_000, mark != COMPACTION
    require_writable(table, () if not news else REWRITES if written else REMOVES)
    # The library quotes the path of what is removed, as it does that of what is added.
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
    """Whether its files have all columns of its declared schema in their types, and no row that is not one of it.

    Files of a partitioned table lack a column; with a newer reader version they may have removed rows or other names.
    """
    from deltalake import Schema

    expected = {field.name: field.type for field in Schema.from_arrow(schema).fields}
    there = {field.name: field.type for field in table.schema().fields}
    same = all(there.get(name) == kind for name, kind in expected.items())
    return same and not table.metadata().partition_columns and table.protocol().min_reader_version == 1


@contextmanager
def _own_commit_accepted(table: DeltaTable, versions: Versions, files: Collection[str] = frozenset()) -> Iterator[None]:
    """Lets a conflict pass where the commit that it is with is this one: the table has its versions and files.

    A store may do what it is asked and then answer with an error: the client asks again and meets its own commit.
    When `with` ends, the commit outlives a power failure.
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
