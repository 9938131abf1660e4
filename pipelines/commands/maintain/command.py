"""Upkeep of a lake: small files made large, old rows and dead files removed, never ahead of the streaming job."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pipelines.alerting.step import last_step
from pipelines.commands.progress import libraries_silent
from pipelines.lake.compaction import compact
from pipelines.lake.durable_log import checkpoint
from pipelines.lake.engines import other_engine
from pipelines.lake.lake import Lake
from pipelines.lake.queries import moment, presents
from pipelines.lake.retention import BRONZE, LAGS, TIMELINE_DAYS, TIMES, remove_older
from pipelines.lake.roles import hold
from pipelines.lake.table import open_table
from pipelines.streaming.checkpoint.offsets import begun, committed_offset
from pipelines.streaming.dead_files import recorded, remove_orphans, remove_tombstones
from pipelines.streaming.reconstruction import reconstruction
from pipelines.streaming.source.bronze_log import last_version_read
from pipelines.streaming.tables import REWRITTEN, WHOLE
from pipelines.verdict.words import clock, listed
from schemas import tables


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

    What ages are files of which every row is old enough, of bronze those that the job has read; and no file of a
    version that it has yet to read is removed. A rebuild after that starts from what bronze still has. `on_table` gets
    the path of each table of `schemas` as its turn comes. Raises RoleHeld.
    """
    options = dict(storage_options or {})
    place = Lake(lake if "://" in lake else str(Path(lake).absolute()), options)
    with hold(lake, "maintain", options) as held:
        read, kept, under_way = version_read(place), recorded(place), begun(place)
        evaluated = evaluated_until(place)
        for name in tables():
            on_table(tables()[name].path)
            if not place.has_table(name):
                continue
            held.check()
            if name == BRONZE and (engine := other_engine(place.open(name))) is not None:
                yield f"{tables()[name].path}: left to {engine}, which writes it: two engines on a local disk could not"
                continue
            days = {BRONZE: bronze_days, **TIMELINE_DAYS, **dict.fromkeys(LAGS, lag_days)}.get(name, silver_days)
            oldest = (now or datetime.now(UTC)) - timedelta(days=days) if days and name in TIMES else None
            with libraries_silent():
                done = list(_keep_up(place, name, read, oldest, vacuum_hours))
            unseen = [
                f"{c} after {clock(at)}" if at else c
                for c, at in evaluated.items()
                if oldest is not None and (at is None or at < oldest)
            ]
            if name in LOOKED_AT and unseen and any(map(_ROWS.match, done)):
                done.append(f"no evaluation of the alerts had looked at {listed(unseen)}")
            if orphans := remove_orphans(place, name, kept.get(name, frozenset()), vacuum_hours, under_way):
                done.append(f"{orphans} files that no commit named removed")
            yield f"{tables()[name].path}: " + ", ".join(done)


_ROWS = re.compile("[1-9][0-9]* rows before")
LOOKED_AT = {BRONZE, "partition_hw", "isr_changes", "replica_sync", "telemetry_gaps"}
"""The tables that grow old and that alert rules look at."""


def evaluated_until(lake: Lake) -> dict[str, datetime | None]:
    """Up to when (event time) the alerts were evaluated, by `check`, `run` or `notify`, of each cluster that has
    something later, None if they never were."""
    clocks, grace = last_step(lake).clocks.values(), timedelta(milliseconds=reconstruction(lake).grace_ms)
    found = dict[str, datetime | None]()
    for cluster, at in sorted(presents(lake).items()):
        evaluated = min((moment(one[cluster]) for one in clocks if cluster in one), default=None)
        if evaluated is None or evaluated + grace < at:
            found[cluster] = evaluated
    return found


def version_read(lake: Lake) -> int | None:
    """The last version of bronze that the job has read for good, None before its first batch."""
    offset = committed_offset(lake)
    return None if offset is None else last_version_read(offset)


def _keep_up(lake: Lake, name: str, read: int | None, oldest: datetime | None, vacuum_hours: int) -> Iterator[str]:
    from deltalake.exceptions import CommitFailedError

    unread = name == BRONZE and (read is None or read < lake.open(name).version())
    try:
        if oldest is not None and name == BRONZE:  # what is compacted now is in no version that the job has read
            yield _aged(lake, name, oldest, read)
        if name not in WHOLE:
            yield _compacted(lake, name)
        if oldest is not None and name != BRONZE:
            yield _aged(lake, name, oldest, read)
    except CommitFailedError:
        yield "written to at the same time, left for the next run"
        return
    if unread and read is None:
        yield "no dead files removed, no job has read it yet"
        return
    hours = None if name in REWRITTEN else vacuum_hours
    yield f"{remove_tombstones(lake, name, hours, read if unread else None)} dead files removed"
    if not unread:
        checkpoint(lake.open(name))


def _aged(lake: Lake, name: str, oldest: datetime, read: int | None) -> str:
    """Take out files of which every row is older, of bronze among those that the job has read."""
    from deltalake.exceptions import DeltaError

    among = None
    if name == BRONZE:
        try:
            seen = open_table(lake.uri(name), lake.storage_options, read) if read is not None and read >= 0 else None
        except DeltaError:  # the log does not reach back so far
            seen = None
        if seen is None:
            return "not aged, the job has yet to read it"
        among = set(seen.get_add_actions(flatten=True).column("path").to_pylist())
    return f"{remove_older(lake, name, oldest, among)} rows before {oldest:%Y-%m-%d %H:%M} removed"


def _compacted(lake: Lake, name: str) -> str:
    if (asked := lake.open(name).protocol().min_reader_version) > 1:
        return f"left as it is, as it asks for Delta reader version {asked}"
    done = compact(lake, name)
    return f"{done.removed} files into {done.added}"
