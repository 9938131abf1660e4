"""`hwmark ingest disk`: the metadata log of brokers' disks to events of a lake, once or as it grows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pyarrow as pa

from generators.brokerlogs.events.event_rows import EVENTS
from generators.brokerlogs.messages.controller_state import METADATA_LOG
from generators.brokerlogs.messages.coverage import Shown
from generators.brokerlogs.tailing.checkpoints import Checkpoints
from generators.brokerlogs.tailing.progress import interleave, progress
from generators.brokerlogs.tailing.sequence_numbers import Numbering
from generators.brokerlogs.tailing.told_lines import Stretch
from generators.disks.directories import find_log_directories
from generators.disks.metadata_log import NodeLog, longest, node_logs
from generators.disks.metadata_rows import SOURCE, MetadataRows, read_rows
from pipelines.errors import UsageError
from pipelines.lake.bronze import append_round
from pipelines.lake.file_systems import StorageOptions
from pipelines.lake.roles import hold

SHARE = 0.01
"""Of one core, at most, that following takes: after a reading it pauses for so many times as long."""
LEAST_PAUSE_S = 1.0
COVERS = ("elections", "unclean_elections", "isr", "brokers", "assignments", "configs", "topics")
"""The kinds of evidence that the metadata log has."""
NO_LINES = {"lines": Stretch(), "place": None}
"""In the state of a source that has no lines of text, where a log's has those told."""


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
    problems: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """The summary, line by line."""
        text = [
            f"{self.cluster}: {self.rows:,} events of {self.records:,} records of the metadata log, {self.nodes} copies"
        ]
        if self.end > self.committed_end:
            text.append(
                f"  offsets {self.committed_end}..{self.end - 1} are not known to be committed: their events are "
                "provisional; the directories of a majority of the controllers, or a newer snapshot, would tell"
            )
        if self.lost:
            text.append(f"  {self.lost:,} records are in no copy given: name the directories of other nodes, too")
        return text + [f"  {problem}" for problem in self.problems]


def ingest_disk(
    paths: Sequence[Path],
    *,
    cluster: str,
    lake: str,
    follow: bool = False,
    on_progress: Callable[[str], None] | None = None,
    stop: threading.Event | None = None,
    storage_options: StorageOptions | None = None,
) -> DiskSummary:
    """Write what is new in the metadata log below `paths`, until `stop` is set if `follow`.

    Raises UsageError where there is none, RoleHeld where another process reads it into this lake.
    """
    stop, summary = stop or threading.Event(), DiskSummary(cluster)
    with hold(lake, f"ingest:{cluster}/{SOURCE}", storage_options) as held:
        writer = _Writer(lake, cluster, storage_options)
        while True:
            began = process_time()
            nodes = node_logs(find_log_directories(paths))
            if not nodes:
                raise UsageError(
                    f"no metadata log below {', '.join(map(str, paths))}: name log directories of KRaft nodes"
                )
            held.check()
            writer.write(nodes, summary)
            if on_progress:
                on_progress(summary.lines()[0])
            if not follow or stop.wait(max(LEAST_PAUSE_S, (process_time() - began) / SHARE)):
                return summary


class _Writer:
    """Writes rows that are new, with the state that says which those are in the same commit."""

    def __init__(self, lake: str, cluster: str, storage_options: StorageOptions | None) -> None:
        self._lake, self._cluster, self._options = lake, cluster, storage_options
        self._checkpoints = Checkpoints(lake, cluster, storage_options)
        self._state: dict[str, Any] = self._checkpoints.load([SOURCE])[SOURCE]
        self._numbering = Numbering(**self._state.get("numbers", {}))

    def write(self, nodes: Sequence[NodeLog], summary: DiskSummary) -> None:
        """Commit the rows past those told; of provisional ones told before, those that are committed now."""
        read = read_rows(nodes, self._cluster)
        rows = self._new_rows(read, nodes)
        summary.nodes, summary.records, summary.lost = len(nodes), read.records, read.lost
        summary.committed_end, summary.end = read.committed_end, read.end
        unknown = [f"{count:,} x {what}: not known, left out" for what, count in read.unknown.most_common(8)]
        summary.problems = [problem for node in nodes for problem in node.problems] + unknown
        if rows.num_rows:
            numbered = self._numbering.number(rows)
            self._state = {
                "numbers": self._numbering.as_json(),
                "told": read.end,
                "committed": read.committed_end,
                "epoch": read.epoch,
                "last_ts": max(read.last_ts, self._state.get("last_ts", 0)),
                **NO_LINES,
            }
            versions = self._checkpoints.write({SOURCE: self._state})
            append_round(self._lake, numbered, versions, self._options)
            self._checkpoints.mark_committed([SOURCE])
            summary.rows += len(numbered)

    def _new_rows(self, read: MetadataRows, nodes: Sequence[NodeLog]) -> pa.Table:
        told, committed = self._state.get("told", 0), self._state.get("committed", 0)
        kept = longest(nodes).lineage.end_of(self._state.get("epoch", -1))
        told = min(told, kept[1]) if kept else 0
        new = (read.offsets >= told) | ((read.offsets >= committed) & (read.offsets < read.committed_end))
        rows, last_us = read.rows.filter(pa.array(new)), self._state.get("last_ts", 0) * 1000
        defaults = {"cluster": self._cluster, "source_id": SOURCE, "broker_id": METADATA_LOG, "level": 0}
        until = read.last_ts * 1000
        if until <= last_us and not rows.num_rows:
            return rows
        shown: Shown = dict.fromkeys(COVERS, 0)
        parts = [interleave(rows, last_us, defaults, shown)] if rows.num_rows else []
        return pa.concat_tables([*parts, progress(np.array([max(until, last_us)]), defaults, EVENTS, shown, last_us)])
