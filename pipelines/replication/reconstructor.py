"""The public face of the reconstruction: feed events, get final facts, carry state in a blob."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.replication.batch import broker_wide
from pipelines.replication.batch.advance_histories import StateTermLookup, decided_upto, keep_ended, narrate
from pipelines.replication.batch.clock_offsets import compare_clocks
from pipelines.replication.batch.copied_lines import mark_copies, remember_lines
from pipelines.replication.batch.hw_timeline import keep_recent
from pipelines.replication.batch.minute_stats import Minutes
from pipelines.replication.batch.rare_events import begin, learn_assignments, note_clocks, take_notes
from pipelines.replication.batch.read import Batch, read, reported_hws, settle_twins
from pipelines.replication.batch.run_terms import Bounds, Outcome, run
from pipelines.replication.compiled.types import I64
from pipelines.replication.events import validation
from pipelines.replication.events.columns import take_rows, with_dictionaries
from pipelines.replication.events.sources_of_rows import SourcedRows
from pipelines.replication.facts.columns import listed, replica_hw, replica_sync
from pipelines.replication.facts.partition_health import health
from pipelines.replication.facts.tables import EMPTY, Facts
from pipelines.replication.rules import Rules
from pipelines.replication.state import snapshot
from pipelines.replication.state.changed_rules import change_rules
from pipelines.replication.state.state import State
from pipelines.replication.telemetry.coverage import KEY_COLUMNS, coverage_of_rows
from pipelines.replication.telemetry.coverage import coverage as coverage_of
from pipelines.replication.telemetry.sources import Sources
from schemas import quarantine, replication_events

EVERYTHING = 1 << 62
NO_EVENTS = replication_events.ARROW.empty_table()
REJECTED = "rejected"
"""Stands in for the type of a row that went to quarantine."""


class Reconstructor:
    """Rebuilds high watermarks, ISR changes, replica states and verdicts from replication events.

    `bucket` of `buckets`: one shard; broker-wide events go to every shard, and what is said about a
    broker-wide series is emitted by its owner shard only.
    """

    def __init__(self, rules: Rules | None = None, bucket: int = 0, buckets: int = 1) -> None:
        self.rules = rules or Rules()
        self.bucket, self.buckets = bucket, buckets
        self.state = State(Sources(self.rules.reorder_grace_ms * 1000))

    def update(self, events: pa.Table, coverage: pa.Table | None = None, batch_id: int = 0) -> Facts:
        """Facts that are final once `events` (bronze schema) are known.

        `coverage` says what each source has told, over all shards (`sources.coverage` of the whole
        micro-batch); without it, it is computed from `events`.
        """
        written = SourcedRows(with_dictionaries(events))
        runs = self._covered(written) if coverage is None else coverage
        facts = self._step(written, runs, batch_id, final=False)
        if not broker_wide.closes(events, runs):
            return facts
        return Facts.concat([facts, self.finish(batch_id)])

    def finish(self, batch_id: int = 0) -> Facts:
        """Makes final what every source has told so far."""
        empty = with_dictionaries(NO_EVENTS)
        return self._step(SourcedRows(empty), coverage_of(empty), batch_id, final=True)

    def health(self) -> pa.Table:
        """The present state of every partition, in the schema of `gold/partition_health`."""
        return health(self.state, self._told())

    def snapshot(self) -> bytes:
        """The whole state as one versioned, compressed blob."""
        return snapshot.pack(self.state, self.rules, self.bucket, self.buckets)

    @classmethod
    def restore(cls, blob: bytes, rules: Rules | None = None) -> Reconstructor:
        """The Reconstructor whose `snapshot` this is, from here on under `rules` where they are given.

        Raises ValueError naming an unknown version, or what of the state is not known.
        """
        made = cls.__new__(cls)
        made.state, kept, made.bucket, made.buckets = snapshot.unpack(blob)
        made.rules = rules or kept
        if made.rules != kept:
            change_rules(made.state, kept, made.rules)
        return made

    def _covered(self, written: SourcedRows) -> pa.Table:
        """What the micro-batch covers."""
        whole = not any(written.events[name].null_count for name in KEY_COLUMNS)
        return coverage_of_rows(written) if whole else coverage_of(written.events)

    def _step(self, written: SourcedRows, runs: pa.Table, batch_id: int, final: bool) -> Facts:
        state, minutes, waited = self.state, Minutes(), self.state.waiting.num_rows
        partitioned, wide, rejected = self._sort_out(written)
        settled = dict(state.sources.settled)
        told_before = {key: s.low_watermark for key, s in state.sources.known.items()}
        wide = broker_wide.unheard(state, wide)
        gaps = state.sources.advance(runs)
        for cluster in {s.cluster for s in state.sources.known.values()}:
            gaps += state.sources.expire_gaps(cluster, everything=final)
        batch = read(state, partitioned, lambda: self._overdue(final))
        lost, reasons = settle_twins(batch)
        mark_copies(state, batch)
        talk = broker_wide.hear(state, wide, gaps, settled)
        learn_assignments(state, batch)
        clocks = compare_clocks(state, batch, self.rules)
        before = {n: state.lanes[n].copy() for n in ("hw", "term_start")}
        outcome = run(state, self.rules, batch, self._bounds(final), final)
        remember_lines(state, batch, outcome.consumed, self.rules)
        self._wait(batch, outcome)
        keep_ended(state, outcome)
        spans = self.rules.race_window_ms * 1000, self.rules.reorder_grace_ms * 1000
        lookup = StateTermLookup(state, self.rules, before, outcome, *spans)
        note_clocks(state, clocks)
        broker_wide.say_clocks(state, talk, clocks)
        changes, regressions = self._narrate(lookup, minutes, batch, final)
        broker_wide.say_gaps(state, talk, batch, outcome)
        broker_wide.say_late(state, talk, batch, waited, settled, told_before)
        return Facts.of(
            partition_hw=outcome.hw.table(),
            replica_sync=replica_sync(state, outcome.sync),
            replica_hw=self._replica_hw(batch, outcome),
            isr_changes=listed("isr_changes", changes),
            hw_regressions=listed("hw_regressions", regressions),
            telemetry_gaps=talk.table(self.bucket, self.buckets, minutes),
            minute_stats=self._minutes(minutes, batch, outcome, wide, batch_id),
            quarantine=_quarantine(rejected, batch, outcome, lost, reasons),
        )

    def _sort_out(self, written: SourcedRows) -> tuple[SourcedRows, pa.Table, pa.Table]:
        """(all events with those that waited, broker-wide events, rejected rows).

        A rejected row stays among the partition events under another type: it fills its number.
        """
        good, rejected = validation.split(written.events, written.slices)
        if good is not None:
            written = SourcedRows(_void(written.events, good))
        broad = broker_wide.heeded(broker_wide.wide_rows(written), self.bucket, self.buckets)
        if self.state.waiting.num_rows:
            waiting = with_dictionaries(self.state.waiting)
            now = written.events.select(waiting.column_names).cast(waiting.schema)
            written = SourcedRows(pa.concat_tables([waiting, now]))
        heard = broad.filter(pc.not_equal(broad["event_type"], REJECTED))
        return written, heard, broker_wide.own_rejected(rejected, self.bucket, self.buckets)

    def _told(self) -> I64:
        known, names = self.state.sources.known, self.state.source_names.all
        return np.array([known[name].low_watermark if name in known else -1 for name in names], dtype=np.int64)

    def _overdue(self, final: bool) -> tuple[I64, I64]:
        """Per source: the time up to which a hole has been waited for long enough; the time after which
        its rows stand behind a hole in its own numbers."""
        names, sources, grace = self.state.source_names.all, self.state.sources, self.rules.reorder_grace_ms * 1000
        overdue, hole = np.full((2, len(names)), EVERYTHING, dtype=np.int64)
        for k, name in enumerate(() if final else names):
            source, newest = sources.known.get(name), sources.latest(str(name[0]))
            own = source.latest if source is not None else -1
            overdue[k] = (own if newest - own < grace else newest) - grace
            if source is not None and source.pending_runs:
                hole[k] = source.low_watermark
        return overdue, hole

    def _bounds(self, final: bool) -> Bounds:
        """How far each source has told, and how far everybody has, as seen from each lane's own source."""
        state = self.state
        told = self._told()
        known = [state.sources.known.get(n) for n in state.source_names.all]
        ceiling = np.array(
            [EVERYTHING if s is None or s.clock_since is None else s.latest for s in known], dtype=np.int64
        )
        if final:
            unbound = np.full(state.lanes.count, EVERYTHING, dtype=np.int64)
            return Bounds(told, ceiling, unbound, unbound)
        everybody, heard = (
            np.array([upto(str(n[0])) for n in state.clusters.all] or [-1], dtype=np.int64)[state.lanes["cluster"]]
            for upto in (state.sources.cluster_low_watermark, state.sources.active_low_watermark)
        )
        return Bounds(told, ceiling, everybody, heard)

    def _wait(self, batch: Batch, outcome: Outcome) -> None:
        """Sets aside the rows that were not read."""
        left, schema = outcome.left, replication_events.ARROW
        self.state.waiting = take_rows(batch.events, left).select(schema.names).cast(schema) if len(left) else NO_EVENTS

    def _narrate(
        self, lookup: StateTermLookup, minutes: Minutes, batch: Batch, final: bool
    ) -> tuple[list[Any], list[Any]]:
        state = self.state
        frontier = {
            k: EVERYTHING if final else state.sources.cluster_low_watermark(str(name[0]))
            for k, name in enumerate(state.clusters.all)
        }
        upto = decided_upto(state, frontier, batch, lookup.outcome)
        take_notes(state, batch, lookup.outcome)
        begin(state, lookup, upto, minutes)
        changes, regressions, moves = narrate(state, lookup, upto)
        for name in state.clusters.all:
            if not final:
                state.sources.settled[str(name[0])] = frontier[state.clusters.number(*name)]
        settled = {k: state.sources.settled.get(str(name[0]), -1) for k, name in enumerate(state.clusters.all)}
        asked_from = decided_upto(state, settled, batch, lookup.outcome) - 2 * lookup.race_window_us
        keep_recent(state, lookup.outcome, lookup.before, asked_from)
        broker_wide.move(state, moves, minutes)
        broker_wide.count_changes(state, changes, regressions, minutes)
        self._forget(frontier)
        return changes, regressions

    def _forget(self, frontier: dict[int, int]) -> None:
        """Drops ended terms that no history will ask for any more."""
        state = self.state
        if len(state.ended) > 1024:
            grace = 6 * self.rules.reorder_grace_ms * 1000
            cluster = state.lanes["cluster"]
            state.ended = {k: v for k, v in state.ended.items() if v[0] >= frontier[int(cluster[k[0]])] - grace}
        oldest = min(frontier.values(), default=-1) - 60 * self.rules.reorder_grace_ms * 1000
        for name in ("holds", "unread"):
            times = getattr(state, name).items()
            setattr(state, name, {k: kept for k, v in times if (kept := [t for t in v if t > oldest])})

    def _replica_hw(self, batch: Batch, outcome: Outcome) -> pa.Table:
        computed = replica_hw(self.state, outcome.sync)
        if not self.rules.replica_hw:
            return computed
        rows = outcome.follower_hws[0]
        read = rows[batch.accepted.dropped[rows] == 0]
        return pa.concat_tables([computed, reported_hws(batch, read)])

    def _minutes(self, minutes: Minutes, batch: Batch, outcome: Outcome, wide: pa.Table, batch_id: int) -> pa.Table:
        minutes.add_outcome(self.state, batch, outcome)
        minutes.add_hw(self.state, outcome.hw)
        minutes.add_sync(self.state, outcome.sync)
        broker_wide.count_wide(self.bucket, self.buckets, wide, minutes)
        return minutes.table(batch_id)


def _void(events: pa.Table, good: pa.Array) -> pa.Table:
    """Rejected rows keep their number and lose their meaning; those without a usable number go."""
    at = events.schema.get_field_index("event_type")
    kind = pc.if_else(good, events["event_type"], REJECTED)
    return events.set_column(at, "event_type", kind).filter(pa.array(~_unnumbered(events)))


def _unnumbered(events: pa.Table) -> Any:
    """Rows whose very identity is unusable: they cannot even fill a number."""
    mask = np.zeros(events.num_rows, dtype=np.bool_)
    for name in ("cluster", "source_id", "source_epoch", "source_seq", "seq", "ts", "broker_id", "partition", "level"):
        mask |= events[name].is_null().to_numpy()
    mask |= pc.and_(events["topic"].is_null(), pc.fill_null(pc.greater_equal(events["partition"], 0), False)).to_numpy()
    for name in ("source_epoch", "seq", "source_seq"):
        mask |= pc.fill_null(pc.less(events[name], 0), False).to_numpy()
    return mask | pc.fill_null(pc.less(events["partition"], -1), False).to_numpy()


def _quarantine(rejected: pa.Table, batch: Batch, outcome: Outcome, lost: I64, reasons: list[str]) -> pa.Table:
    """Rejected rows and the losers of conflicts, whole, with reasons; quarantined_at is the event's own time."""
    parts = []
    read = outcome.consumed[lost] == 1 if len(lost) else lost
    if len(lost) and read.any():
        rows = batch.events.take(pa.array(lost[read]))
        parts.append(rows.append_column("reasons", pa.array([[r] for r, k in zip(reasons, read, strict=True) if k])))
    if rejected.num_rows:
        parts.append(rejected)
    if not parts:
        return EMPTY["quarantine"]
    plain = pa.schema([pa.field(f.name, f.type) for f in quarantine.ARROW if f.name != "quarantined_at"])
    rows = pa.concat_tables([p.select(plain.names).cast(plain) for p in parts])
    noticed = pc.fill_null(rows["ts"], pa.scalar(0, quarantine.ARROW.field("ts").type))
    return rows.append_column("quarantined_at", noticed).select(quarantine.ARROW.names).cast(quarantine.ARROW)


def replay(events: pa.Table, rules: Rules | None = None) -> Facts:
    """All facts of a whole history: update, then finish."""
    reconstructor = Reconstructor(rules)
    return Facts.concat([reconstructor.update(events), reconstructor.finish()])
