"""Unread events of bronze by cluster, found without Spark, on a disk or an object store."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pipelines.lake.delta_log import commits, count_rows
from pipelines.lake.lake import Lake
from pipelines.streaming.checkpoint.offsets import committed_offset
from pipelines.streaming.source.bronze_commits import File, added, removes_rows
from pipelines.streaming.source.bronze_log import BronzeLog, Offset, VersionVanishedError
from pipelines.streaming.source.suitable import UnreadableFileError
from schemas import replication_events

TRUSTED = 32
"""Statistics may cut off names that are as long."""


@dataclass(frozen=True)
class Backlog:
    """The unread events of one cluster, and the wall-clock time at which the oldest were committed."""

    events: int
    oldest: datetime


@dataclass(frozen=True)
class Bronze:
    """The clusters of bronze, what the job has yet to read of each that has such, and when something last came of each.

    `arrived` (wall clock) is as good as statistics are: a file of several clusters counts for all between its first
    and its last.
    """

    clusters: frozenset[str] = frozenset()
    backlogs: Mapping[str, Backlog] | None = None
    arrived: Mapping[str, datetime] = field(default_factory=dict)

    def backlog(self, cluster: str) -> Backlog | None:
        return (self.backlogs or {}).get(cluster)


def bronze_of(lake: Lake) -> Bronze:
    """The clusters in bronze, and the backlogs of the job. Nothing where there is no bronze."""
    if not lake.has_table(replication_events.TABLE):
        return Bronze()
    log = BronzeLog(lake.uri(replication_events.TABLE), lake.storage_options)
    last = lake.open(replication_events.TABLE).version()
    present = log.files(last, last)
    named = {name for file in present for name in file.clusters if name and len(name) < TRUSTED}
    backlogs = _backlogs(log, _unread(log, present, committed_offset(lake), last), named)
    clusters = frozenset(named | backlogs.keys())
    return Bronze(clusters, backlogs, {name: at for name in clusters if (at := _arrived(name, present))})


def _arrived(cluster: str, present: Iterable[File]) -> datetime | None:
    """When the last file came that may have something of a cluster."""
    own = [f.committed_ms for f in present if (f.clusters[0] or "") <= cluster <= (f.clusters[1] or cluster)]
    return datetime.fromtimestamp(max(own) / 1000, UTC) if own else None


def _unread(log: BronzeLog, present: list[File], offset: Mapping[str, Any] | None, last: int) -> list[File]:
    """The files behind a committed offset; all there are where the log does not have them any more, or the table is
    another one than was read."""
    if offset is None or log.is_another(at := _offset(offset), last):
        return present
    try:
        return list(_behind(log, at, last))
    except (FileNotFoundError, VersionVanishedError):
        return present


def _offset(offset: Mapping[str, Any]) -> Offset:
    """An offset of either source; Delta's own order of the files in a version is not known, so it counts as unread."""
    if "reservoirVersion" not in offset:
        return Offset(**offset)
    version = int(offset["reservoirVersion"])
    return Offset(version if offset["isStartingVersion"] else 0, version)


def _behind(log: BronzeLog, at: Offset, last: int) -> Iterator[File]:
    """The files of the versions from an offset on; also of those that the job refuses until they are accepted."""
    first, skipped = at.version, at.index
    if first == at.snapshot:
        yield from log.files(first, first)[skipped:]
        first, skipped = first + 1, 0
    for commit in commits(log.uri, range(first, last + 1), log.storage_options):
        yield from added(commit, accepted=removes_rows(commit))[skipped:]
        skipped = 0


def _backlogs(log: BronzeLog, files: Iterable[File], clusters: Collection[str]) -> dict[str, Backlog]:
    found: dict[str, Backlog] = {}
    for file in files:
        at = datetime.fromtimestamp(file.committed_ms / 1000, UTC)
        for cluster, events in _events(log, file, clusters).items():
            known = found.get(cluster, Backlog(0, at))
            found[cluster] = Backlog(known.events + events, min(known.oldest, at))
    return found


def _events(log: BronzeLog, file: File, clusters: Collection[str]) -> dict[str, int]:
    """The events of each cluster in a file, from its statistics if they name one cluster.

    An unreadable file counts as at least one event of every cluster in its statistics, or else of all `clusters` of
    bronze. Raises UnreadableFileError if none is known.
    """
    least, largest = file.clusters
    known = least is not None and least == largest and (len(least) < TRUSTED or "cluster" in dict(file.values))
    if known and file.rows >= 0:
        return {str(least): file.rows}
    try:
        if known:
            return {str(least): count_rows(log.opened(file.path))}
        import pyarrow.parquet as pq

        with pq.ParquetFile(log.opened(file.path)) as parquet:
            counted = parquet.read(columns=["cluster"])["cluster"].value_counts().to_pylist()
    except (OSError, ValueError) as error:
        if not (affected := {name for name in file.clusters if name} or clusters):
            raise UnreadableFileError(file.path, error) from error
        return dict.fromkeys(affected, max(1, file.rows))
    return {row["values"]: row["counts"] for row in counted}
