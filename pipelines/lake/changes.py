"""The new rows of a table since a version: the data files that its Delta log added."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pipelines.lake import table as delta
from pipelines.lake.delta_log import actions, count_rows
from pipelines.lake.file_systems import file_system
from pipelines.lake.lake import Lake
from schemas.declaration import Table

if TYPE_CHECKING:
    import pyarrow.dataset as ds
    from deltalake import DeltaTable
    from pyarrow.fs import FileSystem


@dataclass(frozen=True)
class Change:
    """Versions `version_from` to `version_to` of a table, and the files they added; None for the whole table."""

    version_from: int
    version_to: int
    rows: int
    files: tuple[str, ...] | None = None


def since(table: DeltaTable, after: int | None, storage_options: Mapping[str, str] | None = None) -> Change | None:
    """The change after version `after` (None: of the whole table); None if there is none.

    Optimizing adds files without new data and is left out. Rows that a later commit removed (an overwrite, a rebuild)
    are not new. If the log or a file is gone, the whole table is new.
    """
    version = table.version()
    if after == version:
        return None
    added = _added(table, after, version, storage_options) if after is not None and after < version else None
    if added is None:
        files = file_system(table.table_uri, storage_options)
        return _change(0, version, sum(_rows(files, *file) for file in _present(table)), None)
    return _change((after or 0) + 1, version, sum(added.values()), tuple(added))


def rows_of(lake: Lake, table: Table, change: Change, *, has_declared: bool) -> ds.Dataset:
    """The rows of a change, from the files that the log names, even if a later commit merged them into others.

    A whole table, and files of another engine, are read as of the last version of the change.
    """
    import pyarrow.dataset as ds

    if change.files is None:
        return _snapshot(lake, table, change)
    if not has_declared or not change.files:
        return of_files(lake, table, change, wanted=True)
    # the format of times in Spark's files by default
    parquet = ds.ParquetFileFormat(read_options=ds.ParquetReadOptions(coerce_int96_timestamp_unit="us"))
    return delta.with_plain_text(ds.dataset(list(change.files), table.arrow(), parquet, lake.files(table)))


def of_files(lake: Lake, table: Table, change: Change, *, wanted: bool) -> ds.Dataset:
    """The table's files at the last version of a change: those that the change added, or all others."""
    names = {_name(path) for path in change.files or ()}
    return _snapshot(lake, table, change, lambda path: (_name(path) in names) == wanted)


def _snapshot(lake: Lake, table: Table, change: Change, keep: Callable[[str], bool] = lambda path: True) -> ds.Dataset:
    """The declared columns of the table at the last version of a change."""
    opened = delta.open_table(lake.uri(table), lake.storage_options, change.version_to)
    return delta.dataset(opened, table.arrow(), keep=keep)


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _change(first: int, last: int, rows: int, files: tuple[str, ...] | None) -> Change | None:
    return Change(first, last, rows, files) if rows else None


def _added(
    table: DeltaTable, after: int, version: int, storage_options: Mapping[str, str] | None
) -> dict[str, int] | None:
    """Rows per added file, by path below the table's folder."""
    files, added = file_system(table.table_uri, storage_options), dict[str, int]()
    try:
        for number in range(after + 1, version + 1):
            for action in actions(files, number):
                _apply(action, added, files)
        present = files.get_file_info(list(added))
    except FileNotFoundError:
        return None
    return added if all(info.is_file for info in present) else None


def _present(table: DeltaTable) -> Iterator[tuple[str, int | None]]:
    """Path and number of rows of every file, None if its writer did not count them."""
    present = table.get_add_actions(flatten=True)
    counted = "num_records" in present.schema.names
    rows = present.column("num_records").to_pylist() if counted else [None] * present.num_rows
    return zip(map(unquote, present.column("path").to_pylist()), rows, strict=True)


def _rows(files: FileSystem, path: str, rows: int | None) -> int:
    return count_rows(files.open_input_file(path)) if rows is None else rows


def _apply(action: dict[str, Any], added: dict[str, int], files: FileSystem) -> None:
    if (add := action.get("add")) and add["dataChange"]:
        path = unquote(add["path"])
        added[path] = _rows(files, path, json.loads(add.get("stats") or "{}").get("numRecords"))
    if (remove := action.get("remove")) and remove["dataChange"]:
        added.pop(unquote(remove["path"]), None)
