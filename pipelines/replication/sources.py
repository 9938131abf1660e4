"""What each telemetry source has told, what is missing from it, and how far a cluster is known.

A source is one (cluster, source_id, source_epoch). Its numbers are contiguous, so a hole is missing
telemetry; how far it has told is the largest time before its first hole.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.replication.columns import I64, plain, wide

COVERAGE = pa.schema([
    pa.field("cluster", pa.string(), nullable=False),
    pa.field("source_id", pa.string(), nullable=False),
    pa.field("source_epoch", pa.int32(), nullable=False),
    pa.field("told", pa.int64(), nullable=False),
    pa.field("seq_from", pa.int64(), nullable=False),
    pa.field("seq_to", pa.int64(), nullable=False),
])  # fmt: skip
"""Runs of numbers that a chunk of events holds, with the largest time (microseconds) in each."""

CLOCK_JUMP_US = 60_000_000
"""A row this far ahead of everything else told is a wrong clock until shown otherwise (contract, `clock`)."""


def coverage(events: pa.Table) -> pa.Table:
    """The runs of consecutive source_seq in `events`, per source; a jump of the clock starts a new run."""
    if not events.num_rows:
        return COVERAGE.empty_table()
    source = source_codes(events)
    seq, ts = wide(events["source_seq"]), wide(events["ts"])
    if not _ordered(source, seq):
        order = np.lexsort((seq, source))
        source, seq, ts = source[order], seq[order], ts[order]
        first_rows = order
    else:
        first_rows = np.arange(len(seq))
    step = np.diff(seq)
    breaks = (np.diff(source) != 0) | (step > 1) | (np.diff(ts) > CLOCK_JUMP_US) | (np.diff(ts) < -CLOCK_JUMP_US)
    starts = np.concatenate([[0], np.flatnonzero(breaks) + 1])
    ends = np.concatenate([starts[1:], [len(seq)]]) - 1
    names = events.select(["cluster", "source_id", "source_epoch"]).take(pa.array(first_rows[starts]))
    return pa.table(
        [*(c.cast(f.type) for c, f in zip(names.columns, COVERAGE, strict=False)),
         pa.array(np.maximum.reduceat(ts, starts)), pa.array(seq[starts]), pa.array(seq[ends])],
        schema=COVERAGE,
    )  # fmt: skip


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


def _ordered(source: I64, seq: I64) -> bool:
    """Rows already stand in runs: each source once, its numbers rising."""
    change = np.diff(source) != 0
    return bool(np.all(change | (np.diff(seq) >= 0)) and np.count_nonzero(change) == len(np.unique(source)) - 1)


@dataclass
class Source:
    """One incarnation of a telemetry writer."""

    cluster: str
    source_id: str
    source_epoch: int
    told: int = -1
    """How far it has told without a hole, microseconds."""
    latest: int = -1
    """The largest time it told at all, holes or not, wrong clocks excepted."""
    next_seq: int = 0
    ahead: list[tuple[int, int, int]] = field(default_factory=list)
    """Runs beyond a hole: (seq_from, seq_to, told)."""
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
        ordered = runs.sort_by([(n, "ascending") for n in ("cluster", "source_id", "source_epoch", "seq_from")])
        for row in ordered.to_pylist():
            key = (row["cluster"], row["source_id"], row["source_epoch"])
            if key not in self.known:
                found += self._introduce(*key)
            source = self.known[key]
            if row["seq_to"] >= source.next_seq:
                source.ahead.append((row["seq_from"], row["seq_to"], row["told"]))
        for source in self.known.values():
            if source.ahead:
                found += self._join(source)
        return found

    def _introduce(self, cluster: str, source_id: str, epoch: int) -> list[Gap]:
        self.known[cluster, source_id, epoch] = Source(cluster, source_id, epoch)
        found = []
        for other in self.known.values():
            if (
                (other.cluster, other.source_id) == (cluster, source_id)
                and other.source_epoch < epoch
                and not other.gone
            ):
                other.gone = True
                found.append(Gap(other, "reset", other.next_seq - 1, other.next_seq - 1, max(other.latest, 0)))
        return found

    def _join(self, source: Source) -> list[Gap]:
        """Moves the contiguous front of a source over the runs that continue it."""
        source.ahead.sort()
        found: list[Gap] = []
        rest: list[tuple[int, int, int]] = []
        for seq_from, seq_to, told in source.ahead:
            clock = self._jumped(source, told)
            if clock:
                found.append(Gap(source, "clock", max(seq_from, source.next_seq), seq_to, told))
            else:
                source.latest = max(source.latest, told)
            if seq_from > source.next_seq:
                rest.append((seq_from, seq_to, told))
            elif seq_to >= source.next_seq:
                source.next_seq = seq_to + 1
                source.told = source.told if clock else max(source.told, told)
        source.ahead = rest
        return found

    def _jumped(self, source: Source, told: int) -> bool:
        """Whether a run is a wrong clock: far ahead of its own source and of everybody else."""
        others = [s.latest for s in self.known.values() if s.cluster == source.cluster and s is not source]
        near = max([source.latest, *others], default=-1)
        if near < 0 or told <= near + CLOCK_JUMP_US or source.latest < 0:
            source.clock_since = None
            return False
        if source.clock_since is None:
            source.clock_since = told
        return told - source.clock_since < self.grace_us

    def holes(self, cluster: str, everything: bool = False) -> list[Gap]:
        """Declares lost what has been missing for longer than the grace; `everything` at the end."""
        found = []
        for source in self.known.values():
            while source.cluster == cluster and source.ahead:
                seq_from, seq_to, told = source.ahead[0]
                if not everything and source.latest - max(source.told, 0) < self.grace_us and source.told >= 0:
                    break
                if not everything and source.told < 0 and self.latest(cluster) - told < self.grace_us:
                    break
                found.append(Gap(source, "gap", source.next_seq, seq_from - 1, told))
                source.next_seq = seq_from
                found += [g for g in self._join(source) if g.kind != "clock"]
        return found

    def latest(self, cluster: str) -> int:
        """The largest time any source of the cluster told."""
        return max((s.latest for s in self.known.values() if s.cluster == cluster), default=-1)

    def frontier(self, cluster: str) -> int:
        """How far every source that still speaks has told, or the grace has given up on the silent."""
        alive = [s.told for s in self.known.values() if s.cluster == cluster and not s.gone]
        return max(min(alive, default=-1), self.latest(cluster) - self.grace_us, self.settled.get(cluster, -1))


def names(events: pa.Table, column: str) -> list[str]:
    """The distinct values of a column."""
    return [str(v) for v in pc.unique(events[column]).to_pylist()]
