"""Unneeded files in the folders of tables, and their removal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pipelines.lake.delta_log import AT_ONCE, actions
from pipelines.streaming.checkpoint.manifest import Manifests
from pipelines.streaming.checkpoint.offsets import Begun, begun, query_id
from pipelines.streaming.tables import REWRITTEN

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

    from pipelines.lake.lake import Lake

SAFE_HOURS = 24
"""The least age of an uncommitted file to be removed by a process without the role `run`."""
CLOCKS = timedelta(minutes=1)
"""The largest difference between the clocks of writers and committers."""
WRITTEN_EARLY = timedelta(hours=1)
"""How long before its batch was planned a file may be written, for a process without the role `run`."""


def recorded(lake: Lake) -> dict[str, frozenset[str]]:
    """The files of recorded batches by table; those not committed yet will be."""
    query = query_id(lake)
    manifests = Manifests(lake, query) if query is not None else None
    batches = [manifests.read(number) for number in manifests.numbers()] if manifests is not None else []
    files = [file for batch in batches if batch is not None for file in batch.files]
    return {kind: frozenset(f.path for f in files if f.kind == kind) for kind in {f.kind for f in files}}


def remove_replaced(lake: Lake, retention: timedelta, now: datetime) -> int:
    """Remove dead files of the REWRITTEN tables; returns their number. For the holder of the role `run`.

    A file is dead if it is older than `retention`, no version has had it for as long, and neither the running batch nor
    a recorded one wrote it. Nobody else writes to these tables, so a file that no commit names is dead, too.
    """
    kept, under_way = recorded(lake), begun(lake)
    oldest = now - retention if under_way is None else min(now - retention, under_way.at - CLOCKS)
    removed = 0
    for kind in REWRITTEN:
        if not (old := list(_older(lake.files(kind), oldest))):
            continue
        needed = _present(lake, kind) | _removed_since(lake.files(kind), oldest) | kept.get(kind, frozenset())
        removed += _remove(lake.files(kind), (path for path in old if path not in needed))
    return removed


def remove_orphans(lake: Lake, kind: str, kept: frozenset[str], hours: int, under_way: Begun | None) -> int:
    """Remove files that were never committed, by a killed process or an earlier try of a batch; returns their number.

    Those in `kept`, and files of a running batch, stay.
    """
    oldest = datetime.now(UTC) - timedelta(hours=max(hours, SAFE_HOURS))
    oldest = oldest if under_way is None else min(oldest, under_way.at - WRITTEN_EARLY)
    folder = lake.files(kind)
    if not (old := list(_older(folder, oldest))):
        return 0
    named = {unquote(a[k]["path"]) for a in _log(folder) for k in ("add", "remove") if k in a}
    needed = _present(lake, kind) | named | kept
    return _remove(folder, (path for path in old if path not in needed))


def remove_tombstones(lake: Lake, kind: str, hours: int | None, read: int | None) -> int:
    """Remove files that no version has had for some time (None: the table's own property); returns their number.

    Files that a version after `read` removed stay for readers that have not come so far.
    """
    table, folder = lake.open(kind), lake.files(kind)
    needed: set[str] = set()
    if read is not None:
        after = (action for version in range(read + 1, table.version() + 1) for action in actions(folder, version))
        needed = {unquote(action["remove"]["path"]) for action in after if "remove" in action}
    dead = table.vacuum(hours, dry_run=True, enforce_retention_duration=False)
    return _remove(folder, set(dead) - needed)


def _older(folder: FileSystem, oldest: datetime) -> Iterator[str]:
    from pyarrow.fs import FileSelector

    for file in folder.get_file_info(FileSelector("", recursive=False)):
        if file.base_name.endswith(".parquet") and file.mtime is not None and file.mtime < oldest:
            yield file.base_name


def _present(lake: Lake, kind: str) -> set[str]:
    """The present files of a table."""
    return {unquote(path) for path in lake.open(kind).get_add_actions(flatten=True)["path"].to_pylist()}


def _removed_since(folder: FileSystem, oldest: datetime) -> set[str]:
    """The files that a version had at that time or later."""
    removed = [a["remove"] for a in _log(folder, oldest - CLOCKS) if "remove" in a]
    return {unquote(r["path"]) for r in removed if r["deletionTimestamp"] / 1000 >= oldest.timestamp()}


def _log(folder: FileSystem, since: datetime | None = None) -> Iterator[dict[str, Any]]:
    """The actions of the commits in a table's log that were written since a time."""
    from pyarrow.fs import FileSelector

    for entry in folder.get_file_info(FileSelector("_delta_log", allow_not_found=True)):
        is_commit = entry.base_name.endswith(".json") and entry.base_name[:-5].isdigit()
        if is_commit and (since is None or entry.mtime is None or entry.mtime >= since):
            with suppress(FileNotFoundError):  # other writers clean the table's log, too
                yield from actions(folder, int(entry.base_name[:-5]))


def _remove(folder: FileSystem, paths: Iterable[str]) -> int:
    def delete(path: str) -> int:
        with suppress(FileNotFoundError):
            folder.delete_file(path)
        return 1

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return sum(pool.map(delete, paths))
