"""What a table got since a version: the data files that its Delta log has added."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from generators.files import file_system
from pipelines.delta_log import actions

if TYPE_CHECKING:
    from deltalake import DeltaTable


@dataclass(frozen=True)
class Change:
    """Versions `version_from` to `version_to` of a table, and the files they added; None: all of the table."""

    version_from: int
    version_to: int
    rows: int
    files: tuple[str, ...] | None = None


def since(table: DeltaTable, after: int | None, storage_options: Mapping[str, str] | None = None) -> Change | None:
    """What came after version `after` (None: everything); None where nothing did.

    Optimizing adds files and no data, so it is left out; where a commit takes data away (an overwrite, a
    rebuild) what it took is not new any more. Where the log or a file is gone, the whole table is new.
    """
    version = table.version()
    if after == version:
        return None
    added = _added(table, after, version, storage_options) if after is not None and after < version else None
    if added is None:
        present = table.get_add_actions(flatten=True)
        return _change(0, version, sum(present.column("num_records").to_pylist()), None)
    return _change((after or 0) + 1, version, sum(added.values()), tuple(added))


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
                _apply(action, added)
        present = files.get_file_info(list(added))
    except FileNotFoundError:
        return None
    return added if all(info.is_file for info in present) else None


def _apply(action: dict[str, Any], added: dict[str, int]) -> None:
    if (add := action.get("add")) and add["dataChange"]:
        added[unquote(add["path"])] = json.loads(add["stats"])["numRecords"]
    if (remove := action.get("remove")) and remove["dataChange"]:
        added.pop(unquote(remove["path"]), None)
