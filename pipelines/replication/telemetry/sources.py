"""The low watermark of each telemetry source: up to which time its events are complete.

A source is one (cluster, source_id, source_epoch). It numbers its rows without gaps, so a hole in the numbers is
missing telemetry, and its low watermark is the largest time before its first hole.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pipelines.replication.compiled.types import NEVER
from pipelines.replication.events.columns import int32_column
from pipelines.replication.telemetry.coverage import CLOCK_JUMP_US, SourcedRows
from pipelines.replication.telemetry.source import Gap, Run, Source
from schemas.replication_events import DRAIN

RESTARTED_NUMBERS = "source_seq starts anew inside a source_epoch: its rows are taken for repeats"


def _earlier_start(runs: list[Run], since: int) -> int:
    """The beginning of a run of the same source far before `since`, else `since`.

    A source without a low watermark has nothing else to show a jump of its clock.
    """
    return min((run[2] for run in runs if 0 <= run[2] < since - CLOCK_JUMP_US), default=since)


def _first_time(source: Source) -> int:
    """The first time of its pending runs; rows without one come last."""
    return min((run[2] for run in source.pending_runs if run[2] >= 0), default=NEVER)


@dataclass(frozen=True)
class Decided:
    """By cluster up to which time everything was decided, and the low watermarks of the sources then."""

    settled: dict[str, int]
    low_watermarks: dict[tuple[str, str, int], int]

    def late_until(self, source: tuple[str, str, int]) -> int:
        """Up to which time the rows of a source come too late; -1 where nothing was decided without it."""
        settled = self.settled.get(source[0], -1)
        return settled if self.low_watermarks.get(source, -1) < settled else -1


class Sources:
    """Every source of every cluster, by (cluster, source_id, source_epoch)."""

    def __init__(self, grace_us: int) -> None:
        self.grace_us = grace_us
        self.known: dict[tuple[str, str, int], Source] = {}
        self.settled: dict[str, int] = {}
        """Per cluster the time up to which everything that depends on all sources has been decided."""
        self._by_cluster: dict[str, list[Source]] = {}
        self._grouped = 0

    def of(self, cluster: str) -> list[Source]:
        """The sources of a cluster."""
        if self._grouped != len(self.known):
            self._by_cluster, self._grouped = {}, len(self.known)
            for source in self.known.values():
                self._by_cluster.setdefault(source.cluster, []).append(source)
        return self._by_cluster.get(cluster, [])

    def clusters(self) -> frozenset[str]:
        """The clusters that any source has told of."""
        return frozenset(source.cluster for source in self.known.values())

    def decided(self) -> Decided:
        """The decisions before the next micro-batch."""
        return Decided(dict(self.settled), {key: source.low_watermark for key, source in self.known.items()})

    def advance(self, runs: pa.Table) -> list[Gap]:
        """Add the COVERAGE of one micro-batch; returns the resets and wrong clocks that it shows."""
        found: list[Gap] = []
        restarted: set[tuple[str, str, int]] = set()
        ordered = runs.sort_by([(n, "ascending") for n in ("cluster", "source_id", "source_epoch", "seq_from")])
        for row in ordered.to_pylist():
            if row["source_id"] == DRAIN:  # it closes the history of other sources, and has no clock of its own
                continue
            if not 0 <= row["seq_to"] < NEVER:  # no number of a row
                continue
            key = (row["cluster"], row["source_id"], row["source_epoch"])
            if key not in self.known:
                self.known[key] = Source(*key)
            source = self.known[key]
            if source.restarts_numbers(row["seq_from"], row["since"]) and key not in restarted:
                restarted.add(key)
                last = source.next_seq - 1
                found.append(Gap(source, "reset", last, last, row["since"], RESTARTED_NUMBERS))
            if row["seq_to"] >= source.next_seq:
                source.pending_runs.append((row["seq_from"], row["seq_to"], row["since"], row["latest"]))
        for source in self.known.values():
            if source.first_ts < 0:
                source.first_ts = min((run[2] for run in source.pending_runs if run[2] >= 0), default=-1)
        return found + self._join(list(self.known.values()))

    def record_brokers(self, rows: pa.Table) -> None:
        """Note which brokers these broker-wide rows of sources name."""
        sourced = SourcedRows(rows)
        named = np.column_stack([np.concatenate(sourced.source_of), int32_column(rows["broker_id"])])
        for of, broker in np.unique(named, axis=0).tolist():
            source = self.known.get(sourced.names[of])
            if source is not None and broker not in source.brokers:
                source.brokers.append(broker)

    def _begins_of_later(self, cluster: str) -> list[tuple[Source, int]]:
        """Incarnations that a later one of the same source follows, and the time from which on one does."""
        incarnations: dict[str, list[Source]] = {}
        for source in self.of(cluster):
            incarnations.setdefault(source.source_id, []).append(source)
        found = []
        for several in (each for each in incarnations.values() if len(each) > 1):
            begins = NEVER
            for source in sorted(several, key=lambda source: -source.source_epoch):
                if begins < NEVER:
                    found.append((source, begins))
                begins = min(begins, source.told[0][0]) if source.told else begins
        return found

    def _join(self, sources: list[Source]) -> list[Gap]:
        """Move low watermarks over pending runs until none shows anything more of the clock of another one.

        Who came first counts for nothing: the earliest row is that by which the others are measured, and a run that is
        ahead of all of them is open as of what all have told by then.
        """
        found: list[Gap] = []
        tried = set[tuple[int, int | None]]()
        waiting = sorted((s for s in sources if s.pending_runs), key=_first_time)
        while True:
            before = [(s.latest, s.open_since, len(s.pending_runs)) for s in waiting]
            for source in waiting:
                found += self._join_runs(source)
            if before == [(s.latest, s.open_since, len(s.pending_runs)) for s in waiting]:
                opened = [s for s in waiting if s.clock_since is not None and s.open_since is None]
                for source in opened:
                    source.open_since = self.latest(source.cluster, but=source)
                doubts = {(id(source), source.clock_since) for source in opened}
                if doubts <= tried:  # a run behind a hole is judged anew each time, and may end the doubt of another
                    return found
                tried |= doubts

    def _join_runs(self, source: Source) -> list[Gap]:
        """Move the low watermark of a source over the pending runs that continue its numbers."""
        source.pending_runs.sort()
        found: list[Gap] = []
        rest: list[Run] = []
        for k, (seq_from, seq_to, since, largest) in enumerate(source.pending_runs):
            wrong_clock = self._has_wrong_clock(source, k)
            source.doubtful = wrong_clock is None and source.latest < 0
            if wrong_clock is None:
                rest += source.pending_runs[k:]
                break
            if not wrong_clock:
                source.latest = max(source.latest, largest)
            if seq_from > source.next_seq:
                rest.append((seq_from, seq_to, since, largest))
            elif seq_to >= source.next_seq:
                if wrong_clock:
                    if source.next_seq - 1 != source.wrong_until or not source.next_seq:  # else the stretch goes on
                        found.append(Gap(source, "clock", source.next_seq, source.next_seq, since))
                    source.wrong_until = seq_to
                elif since >= 0:
                    source.tell(max(seq_from, source.next_seq), seq_to, since, largest)
                source.next_seq = seq_to + 1
                source.low_watermark = source.low_watermark if wrong_clock else max(source.low_watermark, largest)
        source.pending_runs = rest
        return found

    def _end_doubt(self, cluster: str) -> list[Gap]:
        """The history is closed and no other source came near the rows that are open: their clocks are wrong."""
        doubtful = [source for source in self.of(cluster) if source.open_since is not None]
        for source in doubtful:
            source.open_since = self.latest(cluster, but=source) - self.grace_us
        return self._join(doubtful)

    def _has_wrong_clock(self, source: Source, k: int) -> bool | None:
        """Whether the clock of a pending run is wrong, that lies far ahead both of its own source and of all others.

        All may have been silent, or its clock is not set. A row of another source near it shows that it is right, as
        does that it goes on for the grace while nobody else tells anything. That others go on for the grace behind it
        shows that it is wrong, or its own next row. Until then it is open: None.
        """
        _, _, since, _ = source.pending_runs[k]
        first = _earlier_start(source.pending_runs, since)
        others = self.latest(source.cluster, but=source)
        own = source.latest if source.latest >= 0 else first if first < since or others < 0 else others
        if since <= own + CLOCK_JUMP_US or self._others_near(source, since):
            if all(run[2] != source.clock_since for run in source.pending_runs[k + 1 :]):  # a later one is in doubt
                source.clock_since = source.open_since = None
            return False
        if source.clock_since is None or source.open_since is None:
            source.clock_since = since
            return None
        later = source.pending_runs[k:]
        if others >= source.open_since + self.grace_us or _earlier_start(later, since) < since:
            return True
        goes_on = max(run[3] for run in later) - source.clock_since >= self.grace_us
        return False if others == source.open_since and goes_on else None

    def _others_near(self, source: Source, since: int) -> bool:
        """Whether another source has a row near `since`, or a later one without a jump of its own clock."""
        for other in self.of(source.cluster):
            if other is source:
                continue
            latest = other.latest
            for _, _, first, last in sorted(other.pending_runs):
                reached = latest if latest >= 0 else _earlier_start(other.pending_runs, first)
                jumps = first > reached + CLOCK_JUMP_US
                if jumps and last >= since - CLOCK_JUMP_US and first <= since + CLOCK_JUMP_US:
                    return True
                latest = latest if jumps else max(latest, last)
            if since <= latest + CLOCK_JUMP_US:
                return True
        return False

    def clock_ceiling(self, source: Source) -> int:
        """The largest time that is believed of a source while its clock is ahead: its own before, or that of others."""
        if source.clock_since is None:
            return NEVER
        known = source.latest if source.latest >= 0 else self.latest(source.cluster, but=source)
        return known if known >= 0 else NEVER

    def expire_gaps(self, cluster: str, everything: bool = False) -> list[Gap]:
        """Declares lost the numbers that have been missing for longer than the grace; with `everything`, all. Then
        reports which incarnations have ended."""
        found = self._end_doubt(cluster) if everything else []
        followed = self._begins_of_later(cluster)
        are_followed = {id(source) for source, _ in followed}
        for source in self.of(cluster):
            while source.pending_runs and source.pending_runs[0][0] > source.next_seq:
                seq_from = source.pending_runs[0][0]
                since = next((run[2] for run in source.pending_runs if run[2] >= 0), source.low_watermark)
                alone = source.low_watermark >= 0 and id(source) not in are_followed
                newest = source.latest if alone else self.latest(cluster)
                if not everything and (source.doubtful or since < 0 or newest - since < self.grace_us):
                    break
                if since >= 0:
                    behind = max(since, source.low_watermark + 1)  # rows of that moment before it may be final already
                    found.append(Gap(source, "gap", source.next_seq, seq_from - 1, behind))
                source.lost.append((source.next_seq, seq_from - 1))
                source.next_seq = seq_from
                found += self._join_runs(source)
            if everything:  # its rows behind the closing row are in doubt anew
                source.open_since = None
        as_of = NEVER if everything else self.latest(cluster) - self.grace_us
        return found + [
            gap for source, begins in self._begins_of_later(cluster) for gap in source.resets(begins, as_of)
        ]

    def beside_others(self) -> set[tuple[str, str, int]]:
        """The sources beside which another incarnation of theirs may still write: two writers of one log, whose rows
        come in no order."""
        running = [name for name, source in self.known.items() if not source.superseded]
        several = Counter(name[:2] for name in running)
        return {name for name in running if several[name[:2]] > 1}

    def received(self, source: tuple[str, str, int], seq: int) -> bool:
        """Whether a row with this number came before."""
        known = self.known.get(source)
        if known is None or any(a <= seq <= b for a, b in known.lost):
            return False
        return seq < known.next_seq or any(run[0] <= seq <= run[1] for run in known.pending_runs)

    def furthest(self, cluster: str) -> dict[str, tuple[int, int]]:
        """By source_id of a cluster the last (source_epoch, source_seq) that came, or is not waited for any more."""
        found: dict[str, tuple[int, int]] = {}
        for source in self.of(cluster):
            came = source.source_epoch, max(source.next_seq - 1, *(run[1] for run in source.pending_runs), -1)
            found[source.source_id] = max(found.get(source.source_id, came), came)
        return found

    def latest(self, cluster: str, but: Source | None = None) -> int:
        """The largest time of any source of the cluster, or of any other than one."""
        return max((s.latest for s in self.of(cluster) if s is not but), default=-1)

    def active_low_watermark(self, cluster: str) -> int:
        """The smallest low watermark of the sources that still write; those silent for the grace do not count."""
        active = [s.low_watermark for s in self.of(cluster) if not s.superseded and not s.doubtful]
        return max(min(active, default=-1), self.latest(cluster) - self.grace_us, self.settled.get(cluster, -1))

    def cluster_low_watermark(self, cluster: str) -> int:
        """The low watermark of all sources, those that have not written yet included.

        The sources of a cluster begin together: until the grace has passed since the first row of the newest one,
        another may follow.
        """
        newest = max((s.first_ts for s in self.of(cluster) if not s.doubtful), default=-1)
        latest = self.latest(cluster)
        if latest < newest + self.grace_us:
            return max(latest - self.grace_us, self.settled.get(cluster, -1))
        return self.active_low_watermark(cluster)
