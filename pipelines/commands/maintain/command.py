"""Upkeep of a lake: small files made large, old rows and dead files removed, never ahead of the streaming job."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.commands.progress import libraries_silent
from pipelines.lake.compaction import compact
from pipelines.lake.engines import MARK, other_engine
from pipelines.lake.lake import Lake
from pipelines.lake.roles import hold
from pipelines.lake.table import is_as_declared
from pipelines.streaming.checkpoint.offsets import begun, committed_offset
from pipelines.streaming.dead_files import recorded, remove_orphans
from pipelines.streaming.source.bronze_commits import RETENTION
from pipelines.streaming.source.bronze_log import last_version_read
from pipelines.streaming.tables import LAGS, REWRITTEN, WHOLE
from schemas import tables
from schemas.encoding import writer_properties

if TYPE_CHECKING:
    from deltalake import DeltaTable

BRONZE = "replication_events"
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
    lag_days: int = 7,
    now: datetime | None = None,
    storage_options: Mapping[str, str] | None = None,
    on_table: Callable[[str], None] = lambda path: None,
) -> Iterator[str]:
    """Compacts, ages and vacuums every table, a line of words each; 0 days keep everything, `lag_days` of those of lag.

    Bronze ages only when the job has read all of it, and no file of a version the job has yet to read is
    removed. A rebuild after that starts from what bronze still has. `on_table` gets the path of each table of `schemas`
    as its turn comes. Raises RoleHeld.
    """
    options = dict(storage_options or {})
    place = Lake(lake if "://" in lake else str(Path(lake).absolute()), options)
    with hold(lake, "maintain", options) as held:
        read, kept, under_way = version_read(place), recorded(place), begun(place)
        for name in tables():
            on_table(tables()[name].path)
            if not place.has_table(name):
                continue
            held.check()
            if name == BRONZE and (engine := other_engine(place.open(name))) is not None:
                yield f"{tables()[name].path}: left to {engine}, which writes it: two engines on a local disk could not"
                continue
            days = {BRONZE: bronze_days, **dict.fromkeys(LAGS, lag_days)}.get(name, silver_days)
            column = "ts" if name in (BRONZE, *LAGS) else AGING.get(name)
            oldest = (now or datetime.now(UTC)) - timedelta(days=days) if days and column else None
            with libraries_silent():
                done = list(_keep_up(place, name, read, column, oldest, vacuum_hours))
            if orphans := remove_orphans(place, name, kept.get(name, frozenset()), vacuum_hours, under_way):
                done.append(f"{orphans} files that no commit named removed")
            yield f"{tables()[name].path}: " + ", ".join(done)


def version_read(lake: Lake) -> int | None:
    """The last version of bronze that the job has read for good, None before its first batch."""
    offset = committed_offset(lake)
    return None if offset is None else last_version_read(offset)


def _keep_up(
    lake: Lake, name: str, read: int | None, column: str | None, oldest: datetime | None, vacuum_hours: int
) -> Iterator[str]:
    from deltalake.exceptions import CommitFailedError

    table = lake.open(name)
    unread = name == BRONZE and (read is None or read < table.version())
    try:
        if oldest is not None:
            yield "not aged, the job has yet to read some of it" if unread else _age(table, column or "ts", oldest)
        if name not in WHOLE:
            yield _compacted(lake, name)
    except CommitFailedError:
        yield "written to at the same time, left for the next run"
        return
    table.update_incremental()
    if unread and read is None:
        yield "no dead files removed, no job has read it yet"
    else:
        yield _vacuum(table, None if name in REWRITTEN else vacuum_hours, read if unread else None)


def _age(table: DeltaTable, column: str, oldest: datetime) -> str:
    from deltalake import CommitProperties

    ours = CommitProperties(custom_metadata={MARK: RETENTION})
    deleted = table.delete(f"{column} < '{oldest.astimezone(UTC).isoformat()}'", commit_properties=ours)
    return f"{deleted['num_deleted_rows']} rows before {oldest:%Y-%m-%d %H:%M} removed"


def _compacted(lake: Lake, name: str) -> str:
    """Small files put together; those with types or columns of a foreign writer as deltalake does it, unsorted."""
    table, schema = lake.open(name), tables()[name].arrow()
    if is_as_declared(table, schema):
        done = compact(lake, name)
        return f"{done.removed} files into {done.added}"
    metrics = table.optimize.compact(writer_properties=writer_properties(schema))
    return f"{metrics['numFilesRemoved']} files into {metrics['numFilesAdded']}"


def _vacuum(table: DeltaTable, hours: int | None, read: int | None) -> str:
    """Removes dead files, None: once the table's own property says so; those of versions after `read` are not dead for
    the job."""
    kept = None if read is None else list(range(read, table.version() + 1))
    removed = table.vacuum(hours, dry_run=False, enforce_retention_duration=False, keep_versions=kept)
    if kept is None:
        table.create_checkpoint()
        table.cleanup_metadata()
    return f"{len(removed)} dead files removed"
