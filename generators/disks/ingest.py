"""`hwmark ingest disk`: metadata log and checkpoints of brokers' disks to events of a lake, once or as they change."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, process_time, time
from typing import Any

import numpy as np
import pyarrow as pa

from generators.brokerlogs.messages.controller_state import METADATA_LOG
from generators.brokerlogs.messages.coverage import Shown
from generators.brokerlogs.tailing.checkpoints import Checkpoints
from generators.brokerlogs.tailing.progress import interleave, progress
from generators.brokerlogs.tailing.sequence_numbers import Numbering
from generators.brokerlogs.tailing.told_lines import Stretch
from generators.disks.checkpoint_rows import BrokerCheckpoints
from generators.disks.directories import METADATA_LOG as METADATA_PLACE
from generators.disks.directories import LogDirectory, find_log_directories
from generators.disks.files import Unreadable
from generators.disks.lineage import Lineage
from generators.disks.metadata_log import NodeLog, Walked, longest, node_logs
from generators.disks.metadata_rows import SOURCE, MetadataRows, Replay
from generators.disks.quorum import QuorumEnd
from pipelines.errors import UsageError
from pipelines.lake.bronze import append_round
from pipelines.lake.file_systems import StorageOptions
from pipelines.lake.roles import Held, RoleHeld, hold
from schemas.levels import POLLED
from schemas.replication_events import DISK

SHARE = 0.009
"""The share of one core for looks: following pauses for 1 / SHARE times as long as a look took. Between two looks
it takes less than another thousandth."""
LEAST_PAUSE_S = 1.0
WAIT_FOR_ROLE_S = 60.0
COVERS = ("elections", "unclean_elections", "isr", "brokers", "assignments", "configs", "topics")
"""Kinds of evidence that are complete in the metadata log; none is in checkpoints, written every five seconds."""
NO_LINES = {"lines": Stretch(), "place": None}
"""State of a source without lines of text; a log has the lines here that were read."""


@dataclass
class DiskSummary:
    """Rows written by one call, and how far the metadata log goes."""

    cluster: str
    nodes: int = 0
    rows: int = 0
    records: int = 0
    committed_end: int = 0
    end: int = 0
    lost: int = 0
    replicas: Counter[int] = field(default_factory=Counter)
    """Replicas in the directories of each broker."""
    problems: dict[str, list[str]] = field(default_factory=dict)
    """Problems that kept something from being read, by source."""
    notes: dict[str, list[str]] = field(default_factory=dict)
    """By source: unknown kinds of records, and the process that reads it in place of this one."""

    def lines(self) -> list[str]:
        """The summary, line by line."""
        text = [
            f"{self.cluster}: {self.rows:,} events of {self.records:,} records of the metadata log, {self.nodes} "
            f"copies, and of {self.replicas.total():,} replicas of {len(self.replicas)} brokers"
        ]
        if self.end > self.committed_end:
            text.append(
                f"  offsets {self.committed_end}..{self.end - 1} are not known to be committed: their events are "
                "provisional until the directories of a majority of the controllers, a newer snapshot, or the quorum "
                "(--bootstrap) shows that they are"
            )
        if self.lost:
            text.append(f"  {self.lost:,} records are in no copy given: name the directories of other nodes, too")
        return text + [f"  {words}" for words in self.remarks()]

    def remarks(self) -> list[str]:
        """The problems and notes of all sources."""
        return [words for each in (*self.problems.values(), *self.notes.values()) for words in each]


def ingest_disk(
    paths: Sequence[Path],
    *,
    cluster: str,
    lake: str,
    follow: bool = False,
    quorum: Callable[[], QuorumEnd | str] | None = None,
    on_progress: Callable[[str], None] | None = None,
    stop: threading.Event | None = None,
    storage_options: StorageOptions | None = None,
) -> DiskSummary:
    """Write what is new in the metadata log and in the checkpoints below `paths`, until `stop` is set if `follow`.

    `quorum` says how much of the log is committed, or why it is not known. Raises UsageError if there are neither, or
    the quorum is another cluster's, RoleHeld if another process reads the same into this lake.
    """
    stop, summary = stop or threading.Event(), DiskSummary(cluster)
    directories = find_log_directories(paths)
    with ExitStack() as roles:
        readers = _readers(directories, _Place(lake, cluster, storage_options, roles), quorum, follow=follow)
        began: float | None = None
        said: list[str] = []
        while True:
            summary.problems["directories"] = [*_left_out(directories, readers)]
            for reader in readers:
                try:
                    reader.read(directories, summary)
                except Unreadable as error:  # renamed, or the disk fails; what the lake refuses ends the process
                    if not follow:
                        raise
                    summary.problems[reader.source] = [str(error)]
            if on_progress:
                on_progress("; ".join([summary.lines()[0], *(one for one in summary.remarks() if one not in said)]))
                said = summary.remarks()
            # the first look reads all that there is
            pause_s = LEAST_PAUSE_S if began is None else (process_time() - began) / SHARE
            if not follow or stop.wait(max(pause_s, LEAST_PAUSE_S)):
                return summary
            began = process_time()
            try:
                directories = find_log_directories(paths)
                summary.problems.pop("", None)
            except (UsageError, Unreadable) as error:  # a mount that is away for a while
                directories, summary.problems[""] = [], [str(error)]


@dataclass(frozen=True)
class _Place:
    """The cluster and the lake that rows are of, and the roles that are held for them."""

    lake: str
    cluster: str
    options: StorageOptions | None
    roles: ExitStack


def _readers(
    directories: Sequence[LogDirectory], place: _Place, quorum: Callable[[], QuorumEnd | str] | None, *, follow: bool
) -> list[_Reader]:
    """A reader of the metadata log, and one for each broker with replicas.

    If a process runs beside every broker, the first one reads the metadata log, which is the same for all.
    """
    brokers = {
        one.broker_id for one in directories if one.broker_id is not None and any(p.is_replica for p in one.partitions)
    }
    readers: list[_Reader] = [_BrokerReader(place, broker) for broker in sorted(brokers)]
    if any(one.replica(METADATA_PLACE) is not None for one in directories):
        readers.insert(0, _MetadataReader(place, quorum, may_wait=follow and bool(brokers)))
    if not readers:
        paths = ", ".join(str(one.path) for one in directories)
        raise UsageError(f"no replicas and no metadata log below {paths}: name log directories of Kafka's nodes")
    return readers


def _left_out(directories: Sequence[LogDirectory], readers: Sequence[_Reader]) -> Iterator[str]:
    """Name files of directories that cannot be read, and directories that no reader reads."""
    sources = {reader.source for reader in readers}
    for one in directories:
        yield from (f"{one.name}: {problem}" for problem in one.problems)
        if any(p.is_replica for p in one.partitions) and f"{DISK}broker-{one.broker_id}" not in sources:
            yield f"{one.name}: its replicas are not read, as its broker was not known at the start"


class _Reader:
    """Reader of one source; it commits rows together with the state of how far it has read.

    `may_wait`: whether it waits while another process has this source's role.
    """

    def __init__(self, place: _Place, source: str, *, may_wait: bool = False) -> None:
        self.source = source
        self._place, self._may_wait, self._asks_again = place, may_wait, 0.0
        self._held: Held | None = None
        self._state: dict[str, Any] = {}

    def read(self, directories: Sequence[LogDirectory], summary: DiskSummary) -> None:
        """Write what is new. Raises RoleHeld unless it may wait."""
        if self._held is None and monotonic() < self._asks_again:
            return
        try:
            self._take_role()
        except RoleHeld as held:
            if not self._may_wait:
                raise
            summary.notes[self.source] = [str(held)]
            self._asks_again = monotonic() + WAIT_FOR_ROLE_S
        else:
            summary.notes.pop(self.source, None)
            self._require_same_cluster(next((one.cluster_id for one in directories if one.cluster_id), None))
            self._read(directories, summary)

    def _require_same_cluster(self, cluster_id: str | None, what: str = "these directories") -> None:
        """Raise UsageError if this source's rows in the lake are of another cluster: the read position is, too."""
        known, name = self._state.get("cluster_id") or cluster_id, self._place.cluster
        if cluster_id not in (None, known):
            raise UsageError(
                f"{self.source} of {name} is of cluster {known}, {what} of {cluster_id}: name those of {known}, or "
                f"another --cluster; `hwmark forget --cluster {name}` removes {name}"
            )
        self._state = {**self._state, "cluster_id": known}

    def _take_role(self) -> None:
        if self._held is None:
            place = self._place
            role = f"ingest:{place.cluster}/{self.source}"
            self._held = place.roles.enter_context(hold(place.lake, role, place.options))
            self._checkpoints = Checkpoints(place.lake, place.cluster, place.options)
            self._state = self._checkpoints.load([self.source])[self.source]
            self._numbering = Numbering(**self._state.get("numbers", {}))

    def _read(self, directories: Sequence[LogDirectory], summary: DiskSummary) -> None:
        raise NotImplementedError

    def _commit(self, rows: pa.Table, until_ms: int, shown: Shown, state: dict[str, Any], defaults: Any) -> int:
        """Commit rows, with `progress` up to `until_ms` behind them; returns how many."""
        last_us = self._state.get("last_ts", 0) * 1000
        until = max(until_ms * 1000, last_us)
        if until <= last_us and not rows.num_rows:
            return 0
        source = {"cluster": self._place.cluster, "source_id": self.source, **defaults}
        parts = [interleave(rows, last_us, source, shown)] if rows.num_rows else []
        parts.append(progress(np.array([until]), source, rows.schema, shown, last_us))
        assert self._held is not None
        self._held.check()
        numbered = self._numbering.number(pa.concat_tables(parts))
        numbers = {"numbers": self._numbering.as_json(), "last_ts": until // 1000}
        self._state = {**self._state, **state, **numbers, **NO_LINES}
        versions = self._checkpoints.write({self.source: self._state})
        append_round(self._place.lake, numbered, versions, self._place.options)
        self._checkpoints.mark_committed([self.source])
        return len(numbered)


class _MetadataReader(_Reader):
    """The metadata log of the cluster, out of all copies given."""

    def __init__(self, place: _Place, quorum: Callable[[], QuorumEnd | str] | None, *, may_wait: bool) -> None:
        super().__init__(place, SOURCE, may_wait=may_wait)
        self._quorum = quorum
        self._replay, self._walked = Replay(place.cluster), Walked()

    def _read(self, directories: Sequence[LogDirectory], summary: DiskSummary) -> None:
        """Commit new rows, and provisional ones of earlier calls that the quorum has committed by now."""
        nodes = node_logs(directories, self._walked)
        if not nodes:
            return
        told = self._quorum() if self._quorum else None
        if isinstance(told, QuorumEnd):
            self._require_same_cluster(told.cluster_id, "--bootstrap")
        self._require_same_history(longest(nodes).lineage)
        read = self._replay.read(nodes, told if isinstance(told, QuorumEnd) else None)
        summary.nodes, summary.records, summary.lost = len(nodes), read.records, read.lost
        summary.committed_end, summary.end = read.committed_end, read.end
        unknown = read.unknown.most_common(8)
        summary.notes[self.source] = [f"{count:,} x {what}: not known, left out" for what, count in unknown]
        refused = [told] if isinstance(told, str) else []
        summary.problems[self.source] = refused + [problem for node in nodes for problem in node.problems]
        state = {"told": read.end, "committed": read.committed_end, "epoch": read.epoch}
        shown: Shown = dict.fromkeys(COVERS, 0)
        defaults = {"broker_id": METADATA_LOG, "level": 0}
        summary.rows += self._commit(self._new_rows(read, nodes), read.last_ts, shown, state, defaults)

    def _require_same_history(self, log: Lineage) -> None:
        """Raise UsageError if another epoch has what was committed in an earlier one: of a quorum that cannot be."""
        known, committed = self._state.get("epoch", -1), self._state.get("committed", 0)
        later = [start for epoch, start in zip(log.epochs, log.starts, strict=True) if epoch > known >= 0]
        if later and later[0] < committed:
            raise UsageError(
                f"{self.source} of {self._place.cluster} is committed up to offset {committed}, in epoch {known}; here "
                f"a later epoch begins at {later[0]}: these are disks of a clone, or of a cluster that lost metadata; "
                "name another --cluster"
            )

    def _new_rows(self, read: MetadataRows, nodes: Sequence[NodeLog]) -> pa.Table:
        told, committed = self._state.get("told", 0), self._state.get("committed", 0)
        kept = longest(nodes).lineage.end_of(self._state.get("epoch", -1))
        told = min(told, kept[1]) if kept else 0
        new = (read.offsets >= told) | ((read.offsets >= committed) & (read.offsets < read.committed_end))
        return read.rows.filter(pa.array(new))


class _BrokerReader(_Reader):
    """The checkpoints of one broker's log directories."""

    def __init__(self, place: _Place, broker_id: int) -> None:
        super().__init__(place, f"{DISK}broker-{broker_id}")
        self._files = BrokerCheckpoints(broker_id)

    def _read(self, directories: Sequence[LogDirectory], summary: DiskSummary) -> None:
        files = self._files
        files.told = {name: tuple(told) for name, told in self._state.get("told", {}).items()}
        own = [one for one in directories if one.broker_id == files.broker_id]
        files.others = [one for one in directories if one.broker_id != files.broker_id]
        rows = files.rows(own, self._place.cluster, self.source, time())
        defaults = {"broker_id": files.broker_id, "level": POLLED}
        summary.rows += self._commit(rows, files.until_ms, {}, {"told": files.told}, defaults)
        summary.replicas[files.broker_id] = sum(one.is_replica for directory in own for one in directory.partitions)
        summary.problems[self.source] = files.problems
