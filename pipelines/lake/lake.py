"""A lake: all tables below one root directory or object-store URI."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING
from urllib.parse import unquote

from pipelines.lake import table as delta
from pipelines.lake.data_file import write_file
from pipelines.lake.delta_log import actions, commit_path
from pipelines.lake.durable_log import durable
from pipelines.lake.file_systems import StorageOptions, file_system, write_durably
from pipelines.lake.writable import require_writable
from schemas import tables
from schemas.declaration import Table

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as ds
    from deltalake import DeltaTable
    from pyarrow.fs import FileSystem


KEY = "hwmark.key"
"""The table property with its primary key."""


@dataclass(frozen=True)
class Lake:
    """The root of a lake, with the options of `deltalake` to reach it.

    A table is given by its declaration, or by its declared name (`partition_hw`). `copies` has, by path of a table, a
    copy to read in its place, without the files in `unread` (see `pipelines.lake.damage`).
    """

    root: str
    storage_options: StorageOptions = field(default_factory=dict)
    copies: Mapping[str, str] = field(default_factory=dict)
    unread: tuple[str, ...] = ()
    _opened: dict[str, tuple[DeltaTable, list[ds.Dataset]]] | None = field(default=None, compare=False, repr=False)
    """The opened tables by path, and their rows once read; None if each is opened anew."""

    def path(self, table: Table | str) -> str:
        """The path of a table below the root."""
        return declared(table).path

    def uri(self, table: Table | str) -> str:
        return self.copies.get(self.path(table)) or f"{self.root.rstrip('/')}/{self.path(table)}"

    def files(self, table: Table | str | None = None) -> FileSystem:
        """A file system rooted at a table's folder, or at the lake."""
        return file_system(self.uri(table) if table else self.root, self.storage_options)

    def write_durably(self, path: str, content: bytes) -> None:
        """Write a file below the root, completely or not at all; on return it outlives a power failure."""
        write_durably(self.root, path, content, self.storage_options)

    def has_table(self, table: Table | str) -> bool:
        return delta.exists(self.uri(table), self.storage_options)

    def at_once(self) -> Lake:
        """The same lake with each table opened only once, at its first use."""
        return self if self._opened is not None else replace(self, _opened={})

    def open(self, table: Table | str) -> DeltaTable:
        """The table as it is now. Raises TableNotFoundError."""
        if self._opened is None:
            return delta.open_table(self.uri(table), self.storage_options)
        if (path := self.path(table)) not in self._opened:
            self._opened[path] = delta.open_table(self.uri(table), self.storage_options), []
        return self._opened[path][0]

    def find(self, table: Table | str) -> DeltaTable | None:
        """The table as it is now, None if it was never written."""
        there = self._opened is not None and self.path(table) in self._opened
        return self.open(table) if there or self.has_table(table) else None

    def create(self, table: Table | str, properties: Mapping[str, str] | None = None) -> DeltaTable:
        """The table as it is; if there is none, it is made with its declared schema and these properties."""
        made, key = declared(table), {KEY: ",".join(declared(table).key)} if declared(table).key else {}
        properties = {**key, **(properties or {})}
        return delta.create(self.uri(table), made.with_comments(), self.storage_options, properties, made.words)

    def create_with_columns(self, table: Table | str, properties: Mapping[str, str] | None = None) -> DeltaTable:
        """The table with all declared columns and these properties; those that an older table lacks are added."""
        found = require_writable(self.create(table, properties))
        delta.add_columns(found, declared(table).with_comments())
        delta.set_properties(found, properties or {})
        return found

    def replace(self, table: Table | str) -> None:
        """Replace the table by an empty one under a new id, so that a stream over it fails with that reason.

        Its version goes on; properties and the versions that its writers have reached stay.
        """
        from deltalake import DeltaTable

        found, made = self.open(table), declared(table)
        properties = {**found.metadata().configuration, **({KEY: ",".join(made.key)} if made.key else {})}
        with durable(found):
            DeltaTable.create(
                self.uri(table),
                made.with_comments(),
                mode="overwrite",
                configuration=properties,
                storage_options=dict(self.storage_options),
                description=made.words,
                raise_if_key_not_exists=False,
            )

    def rows(self, table: Table | str) -> ds.Dataset:
        """The rows of a table as they are now."""
        return delta.dataset(self.open(table))

    def read(self, table: Table | str, schema: pa.Schema, keep: ds.Expression | None = None) -> pa.Table:
        """The matching rows with the columns of `schema`; none if the table was never written."""
        found = self.find(table)
        if found is None:
            return schema.empty_table()

        known = [] if self._opened is None else self._opened[self.path(table)][1]

        def rows() -> pa.Table:
            every = known.pop() if known else delta.dataset(found, declared(table).arrow())
            read = every.to_table(schema.names, filter=keep).cast(schema)
            known.append(every)
            return read

        return delta.reopening(found, rows)

    def append(self, table: Table | str, rows: pa.Table) -> None:
        """Append rows in one commit; the table is made if there is none.

        The file is written here: on a full disk the library's own writer prints the trace of a panic.
        """
        schema, found = declared(table).arrow(), self.create_with_columns(table)
        written = write_file(self.files(table), self.path(table), schema, [rows.cast(schema)])
        delta.add_files(found, [written], {})

    def table_id(self, table: Table | str) -> str:
        """The id of a table from its first commit, None if the log no longer has that commit."""
        try:
            first = actions(self.files(table), 0)
        except FileNotFoundError:
            first = []
        found = next((a["metaData"]["id"] for a in first if "metaData" in a), None)
        return str(self.open(table).metadata().id if found is None else found)

    def commit_id(self, table: Table | str, version: int) -> str | None:
        """A digest that identifies a version's commit; None if the log does not have it."""
        try:
            with self.files(table).open_input_stream(commit_path(version)) as commit:
                return sha256(commit.read()).hexdigest()[:16]
        except FileNotFoundError:
            return None

    def missing_file(self, table: Table | str, version: int) -> str | None:
        """A file that a version of a table adds and that is missing or incomplete; None if there is none."""
        added = [action["add"] for action in actions(self.files(table), version) if "add" in action]
        sizes = {unquote(add["path"]): int(add["size"]) for add in added}
        return next((path for path, size in sizes.items() if not self.has_whole(table, path, size)), None)

    def missing_files(self, table: Table | str) -> str | None:
        """The present files of a table that are not in its folder, in words; None if all are there."""
        from pyarrow.fs import FileSelector

        named = {unquote(path) for path in self.open(table).get_add_actions(flatten=True).column("path").to_pylist()}
        found = self.files(table).get_file_info(FileSelector("", recursive=True)) if named else ()
        gone = sorted(named - {file.path for file in found})
        return f"lacks {len(gone)} of its {len(named)} files, such as {gone[0]}" if gone else None

    def has_whole(self, table: Table | str, path: str, size: int) -> bool:
        """Whether a table's folder has a file with this size in bytes."""
        return bool(self.files(table).get_file_info(path).size == size)


def declared(table: Table | str) -> Table:
    """The declaration of a table of a lake by its name."""
    return tables()[table] if isinstance(table, str) else table
