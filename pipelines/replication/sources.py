"""What each telemetry source has told, what is missing from it, and how far a cluster is known.

A source is one (cluster, source_id, source_epoch). Its numbers are contiguous, so a hole is missing
telemetry; how far it has told is the largest time before its first hole.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from pipelines.replication.columns import I64, plain, wide
from pipelines.replication.compiled import compiled

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

MOST_PIECES = 1 << 14
CLOCK_JUMP_US = 60_000_000
"""A row this far ahead of everything else told is a wrong clock until shown otherwise (contract, `clock`)."""


def coverage(events: pa.Table) -> pa.Table:
    """The runs of consecutive source_seq in `events`, per source; a jump of the clock starts a new run."""
    for name in ("cluster", "source_id", "source_epoch", "source_seq", "ts"):
        if events[name].null_count:
            events = events.filter(events[name].is_valid())
    if not events.num_rows:
        return COVERAGE.empty_table()
    source, seq, ts = source_codes(events), wide(events["source_seq"]), wide(events["ts"])
    order = _order(source, seq)
    source, seq, ts = source[order], seq[order], ts[order]
    starts = _run_starts(source, seq, ts)
    ends = np.concatenate([starts[1:], [len(seq)]]) - 1
    names = events.select(["cluster", "source_id", "source_epoch"]).take(pa.array(order[starts]))
    made = [
        *names.columns,
        *(pa.array(a) for a in (ts[starts], np.maximum.reduceat(ts, starts), seq[starts], seq[ends])),
    ]
    return pa.table([c.cast(f.type) for c, f in zip(made, COVERAGE, strict=True)], schema=COVERAGE)


def source_codes(events: pa.Table) -> I64:
    """A number per row that tells (cluster, source_id, source_epoch) apart within this table."""
    code = np.zeros(events.num_rows, dtype=np.int64)
    for name in ("cluster", "source_id", "source_epoch"):
        encoded = plain(events[name])
        if not pa.types.is_dictionary(encoded.type):
            encoded = encoded.dictionary_encode()
        if len(encoded.dictionary) > 1:
            code = code * len(encoded.dictionary) + encoded.indices.to_numpy(zero_copy_only=False)
    return code


def _order(source: I64, seq: I64) -> I64:
    """Rows by source and number: mostly a few pieces, which rise by themselves, have only to change places."""
    begin = _pieces(source, seq, np.empty(MOST_PIECES, dtype=np.int64))
    if len(begin) < MOST_PIECES:
        end = np.append(begin[1:], len(seq))
        places = np.lexsort((seq[begin], source[begin]))
        begin, end = begin[places], end[places]
        same, rises = source[begin[1:]] == source[begin[:-1]], seq[begin[1:]] >= seq[end[:-1] - 1]
        if (rises | ~same).all():
            return np.concatenate([np.arange(a, b) for a, b in zip(begin, end, strict=True)])
    return np.lexsort((seq, source))


@compiled
def _pieces(source: I64, seq: I64, starts: I64) -> I64:
    """Where the source changes or its numbers fall, as many as fit."""
    starts[0], count = 0, 1
    for row in range(1, len(seq)):
        if source[row] != source[row - 1] or seq[row] < seq[row - 1]:
            if count == len(starts):
                break
            starts[count] = row
            count += 1
    return starts[:count]


@compiled
def _run_starts(source: I64, seq: I64, ts: I64) -> I64:
    """Where a run begins: at the first row, and where the source, its numbers or its clock jump."""
    starts = [0]
    for row in range(1, len(seq)):
        jumps = abs(ts[row] - ts[row - 1]) > CLOCK_JUMP_US
        if source[row] != source[row - 1] or seq[row] - seq[row - 1] > 1 or jumps:
            starts.append(row)
    return np.array(starts, dtype=np.int64)


Run = tuple[int, int, int, int]
"""(seq_from, seq_to, since, told)"""


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
        ordered = runs.sort_by([(n, "ascending") for n in ("cluster", "source_id", "source_epoch", "seq_from")])
        for row in ordered.to_pylist():
            if row["source_id"] == DRAIN:  # it closes what others told, and has no clock of its own
                continue
            key = (row["cluster"], row["source_id"], row["source_epoch"])
            if key not in self.known:
                self.known[key] = Source(*key)
                new.add(key)
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

    def _jumped(self, source: Source, since: int, told: int) -> bool:
        """Whether a run is a wrong clock: far ahead of its own source and of everything others say."""
        others = [s for s in self.known.values() if s.cluster == source.cluster and s is not source]
        near = max([source.latest, *(s.latest for s in others), *(r[3] for s in others for r in s.ahead)])
        if source.latest < 0 or since <= near + CLOCK_JUMP_US:
            source.clock_since = None
            return False
        source.clock_since = since if source.clock_since is None else source.clock_since
        return told - source.clock_since < self.grace_us

    def holes(self, cluster: str, everything: bool = False) -> list[Gap]:
        """Declares lost what has been missing for longer than the grace; `everything` at the end."""
        found = []
        for source in self.known.values():
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
        alive = [s.told for s in self.known.values() if s.cluster == cluster and not s.gone]
        return max(min(alive, default=-1), self.latest(cluster) - self.grace_us, self.settled.get(cluster, -1))

    def frontier(self, cluster: str) -> int:
        """How far everybody has told, sources not heard of yet included.

        Sources begin together: until the grace has passed on the first row of the newest one another may come.
        """
        newest = max((s.first for s in self.known.values() if s.cluster == cluster), default=-1)
        latest = self.latest(cluster)
        if latest < newest + self.grace_us:
            return max(latest - self.grace_us, self.settled.get(cluster, -1))
        return self.heard_upto(cluster)
