"""Files in the folders of tables that nobody needs any more: which they are, and their removal."""

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
"""No file younger than this is taken for one that nobody will commit, by who does not hold the role `run`."""
CLOCKS = timedelta(minutes=1)
"""So far apart may the clocks be of who writes files and who commits them."""
WRITTEN_EARLY = timedelta(hours=1)
"""So long before its batch was planned may a file of it be written, for who does not hold the role `run`."""


def recorded(lake: Lake) -> dict[str, frozenset[str]]:
    """Per table the files of batches that are recorded: one that is not committed yet will be."""
    query = query_id(lake)
    manifests = Manifests(lake, query) if query is not None else None
    batches = [manifests.read(number) for number in manifests.numbers()] if manifests is not None else []
    files = [file for batch in batches if batch is not None for file in batch.files]
    return {kind: frozenset(f.path for f in files if f.kind == kind) for kind in {f.kind for f in files}}


def remove_replaced(lake: Lake, retention: timedelta, now: datetime) -> int:
    """Removes dead files of the REWRITTEN tables, how many; for who holds the role `run`.

    A file is dead that no version has had for `retention`, that is as old itself, and that neither the batch under way
    nor a recorded one has written. Nobody else writes to these tables, so one that no commit names is dead, too.
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
    """Removes files that were written and never committed, as a process leaves them that was killed or whose batch was
    played again; how many. Those `kept`, and of a batch that is under way, are not among them."""
    oldest = datetime.now(UTC) - timedelta(hours=max(hours, SAFE_HOURS))
    oldest = oldest if under_way is None else min(oldest, under_way.at - WRITTEN_EARLY)
    folder = lake.files(kind)
    if not (old := list(_older(folder, oldest))):
        return 0
    named = {unquote(a[k]["path"]) for a in _log(folder) for k in ("add", "remove") if k in a}
    needed = _present(lake, kind) | named | kept
    return _remove(folder, (path for path in old if path not in needed))


def remove_tombstones(lake: Lake, kind: str, hours: int | None, read: int | None) -> int:
    """Removes files that no version has had for so long, None: for as long as the table's own property says; how many.

    Those that a version after `read` took away are needed by who has yet to read it.
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
    """The files of a table as it is now."""
    return {unquote(path) for path in lake.open(kind).get_add_actions(flatten=True)["path"].to_pylist()}


def _removed_since(folder: FileSystem, oldest: datetime) -> set[str]:
    """Files that a version still had at that time or after it."""
    removed = [a["remove"] for a in _log(folder, oldest - CLOCKS) if "remove" in a]
    return {unquote(r["path"]) for r in removed if r["deletionTimestamp"] / 1000 >= oldest.timestamp()}


def _log(folder: FileSystem, since: datetime | None = None) -> Iterator[dict[str, Any]]:
    """The actions of the commits that the log of a table holds, those written since a time."""
    from pyarrow.fs import FileSelector

    for entry in folder.get_file_info(FileSelector("_delta_log", allow_not_found=True)):
        is_commit = entry.base_name.endswith(".json") and entry.base_name[:-5].isdigit()
        if is_commit and (since is None or entry.mtime is None or entry.mtime >= since):
            with suppress(FileNotFoundError):  # whoever else commits to the table cleans its log, too
                yield from actions(folder, int(entry.base_name[:-5]))


def _remove(folder: FileSystem, paths: Iterable[str]) -> int:
    def delete(path: str) -> int:
        with suppress(FileNotFoundError):
            folder.delete_file(path)
        return 1

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return sum(pool.map(delete, paths))
