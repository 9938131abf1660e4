"""Upkeep of a lake: small files made large, old rows and dead files removed, never ahead of the streaming job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from generators.lock import hold
from pipelines.streaming.bronze_log import last_version_read
from pipelines.streaming.checkpoint import committed_offset
from pipelines.streaming.tables import Lake
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
    now: datetime | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Iterator[str]:
    """Compacts, ages and vacuums every table, a line of words each; 0 days keep everything.

    Bronze ages only when the job has read all of it, and no file of a version the job has yet to read is
    removed. A rebuild after that starts from what bronze still has. Raises RoleHeld.
    """
    from deltalake import DeltaTable

    options = dict(storage_options or {})
    place = Lake(lake if "://" in lake else str(Path(lake).absolute()), options)
    with hold(lake, "maintain", options) as held:
        read = version_read(place)
        for name in tables():
            if not DeltaTable.is_deltatable(place.uri(name), storage_options=options):
                continue
            held.check()
            days, column = (bronze_days, "ts") if name == BRONZE else (silver_days, AGING.get(name))
            oldest = (now or datetime.now(UTC)) - timedelta(days=days) if days and column else None
            yield f"{tables()[name].path}: " + ", ".join(
                _keep_up(place.open(name), name, read, column, oldest, vacuum_hours)
            )


def version_read(lake: Lake) -> int | None:
    """The last version of bronze that the job has read for good, None before its first batch."""
    offset = committed_offset(lake.root, lake.storage_options)
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
    deleted = table.delete(f"{column} < '{oldest.astimezone(UTC).isoformat()}'")
    return f"{deleted['num_deleted_rows']} rows before {oldest:%Y-%m-%d %H:%M} removed"


def _vacuum(table: DeltaTable, hours: int, read: int | None) -> str:
    """Removes dead files; those of the versions after `read` are not dead for the job."""
    kept = None if read is None else list(range(read, table.version() + 1))
    removed = table.vacuum(hours, dry_run=False, enforce_retention_duration=False, keep_versions=kept)
    if kept is None:
        table.create_checkpoint()
        table.cleanup_metadata()
    return f"{len(removed)} dead files removed"
