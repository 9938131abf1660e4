"""Upkeep of a lake: small files made large, old rows and dead files removed, never ahead of the streaming job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from pipelines.commands.progress import libraries_silent
from pipelines.lake.delta_log import actions
from pipelines.lake.engines import MARK, other_engine
from pipelines.lake.lake import Lake
from pipelines.lake.roles import hold
from pipelines.streaming.checkpoint.manifest import Manifests
from pipelines.streaming.checkpoint.offsets import Begun, begun, committed_offset, query_id
from pipelines.streaming.source.bronze_commits import RETENTION
from pipelines.streaming.source.bronze_log import last_version_read
from schemas import tables
from schemas.encoding import writer_properties

if TYPE_CHECKING:
    from deltalake import DeltaTable

BRONZE = "replication_events"
SAFE_HOURS = 24
"""No file younger than this is taken for one that nobody will commit, whatever `vacuum_hours` is."""
AGING = {
    "quarantine": "quarantined_at",
    **dict.fromkeys(("partition_hw", "isr_changes", "replica_sync", "replica_hw", "telemetry_gaps"), "ts"),
    **dict.fromkeys(("minute_stats", "cluster_minute", "broker_minute"), "minute"),
}
"""Tables that `silver_days` thins out, by the column of their time; losses, results and alerts are kept."""


def maintain(
    lake: str,
    *,
    vacuum_hours: int = 168,
    bronze_days: int = 0,
    silver_days: int = 0,
    now: datetime | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Iterator[str]:
    """Compacts, ages and vacuums every table, a line of words each; 0 days keep everything.

    Bronze ages only when the job has read all of it, and no file of a version the job has yet to read is
    removed. A rebuild after that starts from what bronze still has. Raises RoleHeld.
    """
    options = dict(storage_options or {})
    place = Lake(lake if "://" in lake else str(Path(lake).absolute()), options)
    with hold(lake, "maintain", options) as held:
        read, kept, under_way = version_read(place), _recorded(place), begun(place)
        for name in tables():
            if not place.has_table(name):
                continue
            held.check()
            if name == BRONZE and (engine := other_engine(place.open(name))) is not None:
                yield f"{tables()[name].path}: left to {engine}, which writes it: two engines on a local disk could not"
                continue
            days, column = (bronze_days, "ts") if name == BRONZE else (silver_days, AGING.get(name))
            oldest = (now or datetime.now(UTC)) - timedelta(days=days) if days and column else None
            with libraries_silent():
                done = list(_keep_up(place.open(name), name, read, column, oldest, vacuum_hours))
            if orphans := _remove_orphans(place, name, kept.get(name, frozenset()), vacuum_hours, under_way):
                done.append(f"{orphans} files that no commit named removed")
            yield f"{tables()[name].path}: " + ", ".join(done)


def _recorded(lake: Lake) -> dict[str, frozenset[str]]:
    """Per table the files of batches that are recorded: one that is not committed yet will be."""
    query = query_id(lake.files())
    manifests = Manifests(lake, query) if query is not None else None
    batches = [manifests.read(number) for number in manifests.numbers()] if manifests is not None else []
    files = [file for batch in batches if batch is not None for file in batch.files]
    return {kind: frozenset(f.path for f in files if f.kind == kind) for kind in {f.kind for f in files}}


def _remove_orphans(lake: Lake, name: str, kept: frozenset[str], hours: int, under_way: Begun | None) -> int:
    """Removes files that were written and never committed, as a process leaves them that was killed or whose batch was
    played again; how many. Those of a batch that is under way are not among them."""
    from pyarrow.fs import FileSelector

    folder, table = lake.files(name), lake.open(name)
    oldest = datetime.now(UTC) - timedelta(hours=max(hours, SAFE_HOURS))
    oldest = oldest if under_way is None else min(oldest, under_way.at - timedelta(hours=1))
    named = _named(table, lake, name) | kept
    orphans = [
        f.path
        for f in folder.get_file_info(FileSelector("", recursive=False))
        if f.base_name.endswith(".parquet") and f.base_name not in named and f.mtime is not None and f.mtime < oldest
    ]
    for path in orphans:
        folder.delete_file(path)
    return len(orphans)


def _named(table: DeltaTable, lake: Lake, name: str) -> set[str]:
    """Every file that the table has, or had in a version whose commit its log still holds."""
    from pyarrow.fs import FileSelector

    found = {unquote(path) for path in table.get_add_actions(flatten=True)["path"].to_pylist()}
    folder = lake.files(name)
    for entry in folder.get_file_info(FileSelector("_delta_log", allow_not_found=True)):
        if entry.base_name.endswith(".json") and entry.base_name[:-5].isdigit():
            commit = actions(folder, int(entry.base_name[:-5]))
            found |= {unquote(a[k]["path"]) for a in commit for k in ("add", "remove") if k in a}
    return found


def version_read(lake: Lake) -> int | None:
    """The last version of bronze that the job has read for good, None before its first batch."""
    offset = committed_offset(lake)
    return None if offset is None else last_version_read(offset)


def _keep_up(
    table: DeltaTable, name: str, read: int | None, column: str | None, oldest: datetime | None, vacuum_hours: int
) -> Iterator[str]:
    from deltalake.exceptions import CommitFailedError

    unread = name == BRONZE and (read is None or read < table.version())
    try:
        if oldest is not None:
            yield "not aged, the job has yet to read some of it" if unread else _age(table, column or "ts", oldest)
        compacted = table.optimize.compact(writer_properties=writer_properties(tables()[name].arrow()))
    except CommitFailedError:
        yield "written to at the same time, left for the next run"
        return
    yield f"{compacted['numFilesRemoved']} files into {compacted['numFilesAdded']}"
    if unread and read is None:
        yield "no dead files removed, no job has read it yet"
    else:
        yield _vacuum(table, vacuum_hours, read if unread else None)


def _age(table: DeltaTable, column: str, oldest: datetime) -> str:
    from deltalake import CommitProperties

    ours = CommitProperties(custom_metadata={MARK: RETENTION})
    deleted = table.delete(f"{column} < '{oldest.astimezone(UTC).isoformat()}'", commit_properties=ours)
    return f"{deleted['num_deleted_rows']} rows before {oldest:%Y-%m-%d %H:%M} removed"


def _vacuum(table: DeltaTable, hours: int, read: int | None) -> str:
    """Removes dead files; those of the versions after `read` are not dead for the job."""
    kept = None if read is None else list(range(read, table.version() + 1))
    removed = table.vacuum(hours, dry_run=False, enforce_retention_duration=False, keep_versions=kept)
    if kept is None:
        table.create_checkpoint()
        table.cleanup_metadata()
    return f"{len(removed)} dead files removed"
