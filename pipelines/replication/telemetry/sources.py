"""What each telemetry source has told, what is missing from it, and how far a cluster is known.

A source is one (cluster, source_id, source_epoch). Its numbers are contiguous, so a hole is missing
telemetry; how far it has told is the largest time before its first hole.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from pipelines.replication.compiled.decorators import compiled
from pipelines.replication.compiled.records import Arrays, Records, record_layout
from pipelines.replication.compiled.types import I32, I64, frozen
from pipelines.replication.events.sources_of_rows import Written

COVERAGE = pa.schema([
    pa.field("cluster", pa.string(), nullable=False),
    pa.field("source_id", pa.string(), nullable=False),
    pa.field("source_epoch", pa.int32(), nullable=False),
    pa.field("since", pa.int64(), nullable=False),
    pa.field("told", pa.int64(), nullable=False),
    pa.field("seq_from", pa.int64(), nullable=False),
    pa.field("seq_to", pa.int64(), nullable=False),
])  # fmt: skip
"""Runs of numbers that a chunk of events holds, with the first and the largest time (microseconds) in each."""

DRAIN = "hwmark/drain"
"""The source of the rows that make final what was told so far."""

CLOCK_JUMP_US = 60_000_000
"""A row this far ahead of everything else told is a wrong clock until shown otherwise (contract, `clock`)."""


ASKED = ("cluster", "source_id", "source_epoch", "source_seq", "ts")
"""What `coverage` asks of an event."""
RUN = record_layout(source=-1, seq_from=0, seq_to=0, since=0, last=0, told=0)
"""A run of numbers of one source: `since` and `last` are the times of its first and its last row."""
OF = RUN.at
EVER = 1 << 62
ANEW = "source_seq starts anew inside a source_epoch: its rows are taken for repeats"


def coverage(events: pa.Table) -> pa.Table:
    """The runs of consecutive source_seq in `events`, per source; a jump of the clock starts a new run."""
    for name in ASKED:
        if events[name].null_count:
            events = events.filter(events[name].is_valid())
    return covered(Written(events))


def covered(written: Written) -> pa.Table:
    """`coverage` of rows that have all it asks for."""
    if not written.names:
        return COVERAGE.empty_table()
    runs = _joined(_in_order(_runs(written)))
    if runs is None:
        runs = _in_order(_sorted_runs(written))
    clusters, ids, epochs = zip(*written.names, strict=True)
    source = pa.array(runs[:, RUN.at.source])
    columns = [
        pa.array(names, f.type).take(source) for names, f in zip((clusters, ids, epochs), COVERAGE, strict=False)
    ]
    columns += [pa.array(np.ascontiguousarray(runs[:, getattr(RUN.at, f.name)])) for f in list(COVERAGE)[3:]]
    return pa.table(columns, schema=COVERAGE)


def _runs(written: Written) -> Records:
    """Runs as they come: rows of other sources may stand between those of one."""
    still, done, count, earliest = Arrays(RUN), Arrays(RUN, blank=False), 0, [EVER]
    still.grow(len(written.names))
    for piece, source in zip(written.pieces, written.by, strict=True):
        done.grow(count + len(piece))
        count, first = _follow(source, piece.wide("source_seq"), piece.wide("ts"), still.data, done.data, count)
        done.count = count
        earliest.append(first)
    runs = _with_begun(done, count, still)
    written.know("source_seq", int(runs[:, RUN.at.seq_from].min()), int(runs[:, RUN.at.seq_to].max()))
    written.know("ts", min(earliest), int(runs[:, RUN.at.told].max()))
    return runs


def _with_begun(done: Arrays, count: int, still: Arrays) -> Records:
    """Runs that are over, and those that sources are in at the end."""
    begun = still.data[: still.count]
    return np.concatenate([done.data[:count], begun[begun[:, RUN.at.source] >= 0]])


@compiled
def _follow(source: I32, seq: I64, ts: I64, still: Records, done: Records, count: int) -> tuple[int, int]:
    """Goes on with the run that each source is in, or puts it to those that are over and begins another: (runs that are
    over, the first time of all)."""
    earliest = EVER
    for row in range(len(source)):
        s, number, now = np.uint32(source[row]), seq[row], ts[row]
        earliest = min(earliest, now)
        ahead = number - still[s, OF.seq_to]
        if still[s, OF.source] >= 0 and 0 <= ahead <= 1 and abs(now - still[s, OF.last]) <= CLOCK_JUMP_US:
            still[s, OF.seq_to] = number
            still[s, OF.last] = now
            still[s, OF.told] = max(still[s, OF.told], now)
            continue
        if still[s, OF.source] >= 0:
            done[count] = still[s]
            count += 1
        still[s, OF.source] = source[row]
        still[s, OF.seq_from] = still[s, OF.seq_to] = number
        still[s, OF.since] = still[s, OF.last] = still[s, OF.told] = now
    return count, earliest


def _in_order(runs: Records) -> Records:
    order = np.lexsort((runs[:, RUN.at.seq_from], runs[:, RUN.at.source]))
    ordered: Records = runs[order]
    return ordered


def _joined(runs: Records) -> Records | None:
    """Runs that go on from one another as one; None where some overlap."""
    before, after = runs[:-1], runs[1:]
    same = before[:, RUN.at.source] == after[:, RUN.at.source]
    ahead = after[:, RUN.at.seq_from] - before[:, RUN.at.seq_to]
    if (same & (ahead <= 0)).any():
        return None
    jumps = np.abs(after[:, RUN.at.since] - before[:, RUN.at.last]) > CLOCK_JUMP_US
    starts = np.concatenate([[0], np.flatnonzero(~same | (ahead > 1) | jumps) + 1])
    joined: Records = runs[starts]
    joined[:, RUN.at.seq_to] = runs[np.append(starts[1:], len(runs)) - 1, RUN.at.seq_to]
    joined[:, RUN.at.told] = np.maximum.reduceat(runs[:, RUN.at.told], starts)
    return joined


def _sorted_runs(written: Written) -> Records:
    """Runs of rows that are first put into the order of their numbers."""
    source = np.concatenate(written.by)
    seq, ts = (np.concatenate([piece.wide(name) for piece in written.pieces]) for name in ("source_seq", "ts"))
    order = np.lexsort((seq, source))
    still, done = Arrays(RUN, count=len(written.names)), Arrays(RUN, count=len(order), blank=False)
    count, _ = _follow(frozen(source[order]), frozen(seq[order]), frozen(ts[order]), still.data, done.data, 0)
    return _with_begun(done, count, still)


Run = tuple[int, int, int, int]
"""(seq_from, seq_to, since, told)"""


def _falls_to(runs: list[Run], since: int) -> int:
    """Where a source goes on that began at `since`, if that is far behind: nothing before it says what is right."""
    return min((run[2] for run in runs if run[2] < since - CLOCK_JUMP_US), default=since)


@dataclass
class Source:
    """One incarnation of a telemetry writer."""

    cluster: str
    source_id: str
    source_epoch: int
    first: int = -1
    """The first time it told."""
    told: int = -1
    """How far it has told without a hole, microseconds."""
    latest: int = -1
    """The largest time it told at all, holes or not, wrong clocks excepted."""
    next_seq: int = 0
    ahead: list[Run] = field(default_factory=list)
    """Runs that are not joined to what it told: there is a hole before them."""
    lost: list[tuple[int, int]] = field(default_factory=list)
    """Numbers declared lost: what comes of them later is late, not a repeat."""
    clock_since: int | None = None
    """The first time of a stretch that ran ahead of everybody, while it lasts."""
    gone: bool = False
    """A later incarnation has spoken: nothing more is expected."""
    doubtful: bool = False
    """Its first rows lie far ahead of what all others told: nothing of it counts until they or it show which is
    right."""

    def starts_anew(self, seq: int, ts: int) -> bool:
        """Whether a number that was told before comes again with a time after all that was told: no repeat does."""
        return seq < self.next_seq and ts > self.latest >= 0


@dataclass(frozen=True)
class Gap:
    """Something wrong with a source's own series, for silver/telemetry_gaps."""

    source: Source
    kind: str
    seq_from: int
    seq_to: int
    ts: int
    detail: str | None = None


class Sources:
    """Every source of every cluster, by (cluster, source_id, source_epoch)."""

    def __init__(self, grace_us: int) -> None:
        self.grace_us = grace_us
        self.known: dict[tuple[str, str, int], Source] = {}
        self.settled: dict[str, int] = {}
        """Per cluster, how far everything that needs all sources has been decided."""

    def tell(self, runs: pa.Table) -> list[Gap]:
        """Takes in coverage of one micro-batch; returns resets and wrong clocks it shows."""
        found: list[Gap] = []
        new: set[tuple[str, str, int]] = set()
        anew: set[tuple[str, str, int]] = set()
        ordered = runs.sort_by([(n, "ascending") for n in ("cluster", "source_id", "source_epoch", "seq_from")])
        for row in ordered.to_pylist():
            if row["source_id"] == DRAIN:  # it closes what others told, and has no clock of its own
                continue
            key = (row["cluster"], row["source_id"], row["source_epoch"])
            if key not in self.known:
                self.known[key] = Source(*key)
                new.add(key)
            if self.known[key].starts_anew(row["seq_from"], row["since"]) and key not in anew:
                anew.add(key)
                last = self.known[key].next_seq - 1
                found.append(Gap(self.known[key], "reset", last, last, row["since"], ANEW))
            if row["seq_to"] >= self.known[key].next_seq:
                self.known[key].ahead.append((row["seq_from"], row["seq_to"], row["since"], row["told"]))
        for key in sorted(self.known):
            if key in new:
                self.known[key].first = min(run[2] for run in self.known[key].ahead)
                found += self._introduce(self.known[key])
            if self.known[key].ahead:
                found += self._join(self.known[key])
        return found

    def _introduce(self, new: Source) -> list[Gap]:
        """Earlier incarnations of a source end when a later one speaks."""
        ended = [
            s
            for s in self.known.values()
            if (s.cluster, s.source_id) == (new.cluster, new.source_id)
            and s.source_epoch < new.source_epoch
            and not s.gone
        ]
        for source in ended:
            source.gone = True
        return [Gap(s, "reset", s.next_seq - 1, s.next_seq - 1, max(s.latest, 0)) for s in ended]

    def _join(self, source: Source) -> list[Gap]:
        """Moves the contiguous front of a source over the runs that continue it."""
        source.ahead.sort()
        source.doubtful = self._is_doubtful(source)
        if source.doubtful:
            return []
        found: list[Gap] = []
        rest: list[Run] = []
        for seq_from, seq_to, since, told in source.ahead:
            clock = self._jumped(source, since, told)
            if clock:
                found.append(Gap(source, "clock", max(seq_from, source.next_seq), seq_to, since))
            else:
                source.latest = max(source.latest, told)
            if seq_from > source.next_seq:
                rest.append((seq_from, seq_to, since, told))
            elif seq_to >= source.next_seq:
                source.next_seq = seq_to + 1
                source.told = source.told if clock else max(source.told, told)
        source.ahead = rest
        return found

    def _is_doubtful(self, source: Source) -> bool:
        """Whether a source began far ahead of all others and has not gone on for the grace: it may have begun later, or
        its clock is wrong until it is set. A row of its own far behind shows that, one of another source near it that
        it is right."""
        first, last = min(run[2] for run in source.ahead), max(run[3] for run in source.ahead)
        others = self.latest(source.cluster)
        if source.latest >= 0 or others < 0 or first <= others + CLOCK_JUMP_US:
            return False
        return last - first < self.grace_us and not self._others_near(source, first)

    def _give_up(self, source: Source) -> list[Gap]:
        """Everything is told, and nobody came near what a source began with: its clock is wrong."""
        source.clock_since, source.latest = min(run[2] for run in source.ahead), self.latest(source.cluster)
        return self._join(source)

    def _jumped(self, source: Source, since: int, told: int) -> bool:
        """Whether a run is a wrong clock: far ahead of its own source and of everything others say."""
        own = source.latest if source.latest >= 0 else _falls_to(source.ahead, since)
        if since <= own + CLOCK_JUMP_US or self._others_near(source, since):
            source.clock_since = None
            return False
        source.clock_since = since if source.clock_since is None else source.clock_since
        return told - source.clock_since < self.grace_us

    def _others_near(self, source: Source, since: int) -> bool:
        """Whether another source has told a time close to `since`, or a later one without a jump of its own."""
        for other in self.known.values():
            if other.cluster != source.cluster or other is source:
                continue
            latest = other.latest
            for _, _, first, last in sorted(other.ahead):
                jumps = first > (latest if latest >= 0 else _falls_to(other.ahead, first)) + CLOCK_JUMP_US
                if jumps and last >= since - CLOCK_JUMP_US and first <= since + CLOCK_JUMP_US:
                    return True
                latest = latest if jumps else max(latest, last)
            if since <= latest + CLOCK_JUMP_US:
                return True
        return False

    def holes(self, cluster: str, everything: bool = False) -> list[Gap]:
        """Declares lost what has been missing for longer than the grace; `everything` at the end."""
        found = []
        for source in self.known.values():
            if source.cluster == cluster and source.doubtful:
                if not everything:
                    continue
                found += self._give_up(source)
            while source.cluster == cluster and source.ahead:
                seq_from, _, since, told = source.ahead[0]
                if not everything and source.latest - max(source.told, 0) < self.grace_us and source.told >= 0:
                    break
                if not everything and source.told < 0 and self.latest(cluster) - told < self.grace_us:
                    break
                found.append(Gap(source, "gap", source.next_seq, seq_from - 1, since))
                source.lost.append((source.next_seq, seq_from - 1))
                source.next_seq = seq_from
                found += [g for g in self._join(source) if g.kind != "clock"]
        return found

    def heard(self, source: tuple[str, str, int], seq: int) -> bool:
        """Whether this number was told before."""
        known = self.known.get(source)
        if known is None or any(a <= seq <= b for a, b in known.lost):
            return False
        return seq < known.next_seq or any(run[0] <= seq <= run[1] for run in known.ahead)

    def latest(self, cluster: str) -> int:
        """The largest time any source of the cluster told."""
        return max((s.latest for s in self.known.values() if s.cluster == cluster), default=-1)

    def heard_upto(self, cluster: str) -> int:
        """How far every source heard of that still speaks has told, or the grace has given up on the silent."""
        alive = [s.told for s in self.known.values() if s.cluster == cluster and not s.gone and not s.doubtful]
        return max(min(alive, default=-1), self.latest(cluster) - self.grace_us, self.settled.get(cluster, -1))

    def frontier(self, cluster: str) -> int:
        """How far everybody has told, sources not heard of yet included.

        Sources begin together: until the grace has passed on the first row of the newest one another may come.
        """
        newest = max((s.first for s in self.known.values() if s.cluster == cluster and not s.doubtful), default=-1)
        latest = self.latest(cluster)
        if latest < newest + self.grace_us:
            return max(latest - self.grace_us, self.settled.get(cluster, -1))
        return self.heard_upto(cluster)
