"""Rows of a table with many small files, each read once in the life of a process."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from pipelines.lake import table as delta
from pipelines.lake.changes import Change, rows_of
from pipelines.lake.file_systems import local_path
from pipelines.lake.lake import Lake
from schemas.declaration import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deltalake import DeltaTable
    from pyarrow.dataset import Expression


@dataclass
class KeptRows:
    """The `wanted` rows of one table, with these columns.

    A file that is gone from a disk is read again, so that reading fails: without it the table's rows are not known.
    """

    table: Table
    schema: pa.Schema
    wanted: Expression | None = None
    _files: dict[str, pa.Table] = field(default_factory=dict)
    _table_id: str = ""

    def read(self, lake: Lake, files: str | None = None) -> pa.Table:
        """Return the rows as they are now; none where the table was never written.

        Args:
            files: a condition in SQL. Files in which no row can meet it, by their statistics, are left out.
        """
        opened = lake.find(self.table)
        if opened is None:
            return self.schema.empty_table()
        if not delta.has_declared(opened, self.table.arrow()):
            return lake.read(self.table, self.schema, self.wanted)
        return delta.reopening(opened, lambda: self._read(lake, opened, files))

    def _read(self, lake: Lake, opened: DeltaTable, files: str | None) -> pa.Table:
        table_id = str(opened.metadata().id)
        if table_id != self._table_id:
            self._files, self._table_id = {}, table_id
        folder = f"{opened.table_uri.removeprefix('file://').rstrip('/')}/"  # files on a disk have no scheme
        paths = [uri.removeprefix(folder) for uri in opened.file_uris(file_pruning_predicate=files)]
        if local_path(lake.root) is not None:
            there = lake.files(self.table).get_file_info(list(self._files))
            self._files = {info.path: self._files[info.path] for info in there if info.is_file}
        new = [path for path in paths if path not in self._files]
        self._files |= zip(new, self._read_files(lake, new), strict=True)
        self._files = {path: self._files[path] for path in paths}
        return pa.concat_tables([self.schema.empty_table(), *self._files.values()])

    def _read_files(self, lake: Lake, paths: Sequence[str]) -> list[pa.Table]:
        rows = rows_of(lake, self.table, Change(0, 0, 0, tuple(paths)), has_declared=True) if paths else None
        parts = [] if rows is None else rows.get_fragments()
        names, wanted = self.schema.names, self.wanted
        return [p.to_table(self.table.arrow(), columns=names, filter=wanted).cast(self.schema) for p in parts]
