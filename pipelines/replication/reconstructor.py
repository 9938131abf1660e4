"""The public face of the reconstruction: feed events, get final facts, carry the state in a blob."""

from __future__ import annotations

import pyarrow as pa

from pipelines.replication.batch.advance_histories import HistoryChanges, advance_histories, history_limits
from pipelines.replication.batch.broker_wide import apply_broker_wide, closes_history, first_seen
from pipelines.replication.batch.clock_offsets import WrongClock, compare_clocks
from pipelines.replication.batch.conflicts import resolve_conflicts
from pipelines.replication.batch.copied_lines import mark_copies, remember_lines
from pipelines.replication.batch.gaps import clock_gaps, partition_gaps
from pipelines.replication.batch.gauges import count_broker_wide, count_changes, count_gauge_moves
from pipelines.replication.batch.hw_timeline import trim_timeline
from pipelines.replication.batch.intake import NO_EVENTS, keep_waiting, quarantine_rows, sort_out
from pipelines.replication.batch.late import DecidedBefore, late_rows
from pipelines.replication.batch.minute_stats import MinuteStats
from pipelines.replication.batch.rare_events import (
    queue_clocks,
    queue_partition_events,
    record_assignments,
    start_first_terms,
)
from pipelines.replication.batch.read import Batch, number_rows
from pipelines.replication.batch.replica_hws import replica_hws
from pipelines.replication.batch.run_terms import TermResults, run_terms
from pipelines.replication.batch.term_lookup import StateTermLookup, record_ended_terms
from pipelines.replication.batch.watermarks import cluster_low_watermarks, gap_limits, low_watermarks, watermarks
from pipelines.replication.events.columns import with_dictionaries
from pipelines.replication.events.sources_of_rows import SourcedRows
from pipelines.replication.facts.columns import replica_sync, table_of_dicts
from pipelines.replication.facts.partition_health import health
from pipelines.replication.facts.tables import Facts
from pipelines.replication.rules import Rules
from pipelines.replication.state import snapshot
from pipelines.replication.state.changed_rules import change_rules
from pipelines.replication.state.state import State
from pipelines.replication.telemetry.coverage import KEY_COLUMNS, coverage_of_rows
from pipelines.replication.telemetry.coverage import coverage as coverage_of
from pipelines.replication.telemetry.sources import Gap, Sources

KEPT_TERMS = 1024
"""The most ended terms that are kept without a look at their age."""
ENDED_TERM_GRACES, GAP_GRACES = 6, 60
"""For how many graces ended terms and the times of gaps are kept behind the low watermark."""


class Reconstructor:
    """Rebuilds high watermarks, ISR changes, replica states and verdicts from replication events.

    It is shard `bucket` of `buckets`. Broker-wide events go to every shard; rows about a broker-wide series are emitted
    by the shard that owns it.
    """

    def __init__(self, rules: Rules | None = None, bucket: int = 0, buckets: int = 1) -> None:
        self.rules = rules or Rules()
        self.bucket, self.buckets = bucket, buckets
        self.state = State(Sources(self.rules.reorder_grace_ms * 1000))

    def update(self, events: pa.Table, coverage: pa.Table | None = None, batch_id: int = 0) -> Facts:
        """Facts that are final once `events` (bronze schema) are known.

        `coverage` is that of the whole micro-batch over all shards (`telemetry.coverage.coverage`); without it, it is
        computed from `events`.
        """
        rows = SourcedRows(with_dictionaries(events))
        runs = _coverage(rows) if coverage is None else coverage
        facts = self._step(rows, runs, batch_id, final=False)
        if not closes_history(events, runs):
            return facts
        return Facts.concat([facts, self.finish(batch_id)])

    def finish(self, batch_id: int = 0) -> Facts:
        """Makes final what every source has reported so far."""
        empty = with_dictionaries(NO_EVENTS)
        return self._step(SourcedRows(empty), coverage_of(empty), batch_id, final=True)

    def health(self) -> pa.Table:
        """The present state of every partition, in the schema of `gold/partition_health`."""
        return health(self.state, low_watermarks(self.state))

    def snapshot(self) -> bytes:
        """The whole state as one versioned, compressed blob."""
        return snapshot.pack(self.state, self.rules, self.bucket, self.buckets)

    @classmethod
    def restore(cls, blob: bytes, rules: Rules | None = None) -> Reconstructor:
        """The Reconstructor whose `snapshot` this is, from here on under `rules` where they are given.

        Raises ValueError naming an unknown version, or the part of the state that is not known.
        """
        made = cls.__new__(cls)
        made.state, old_rules, made.bucket, made.buckets = snapshot.unpack(blob)
        made.rules = rules or old_rules
        if made.rules != old_rules:
            change_rules(made.state, old_rules, made.rules)
        return made

    def _step(self, rows: SourcedRows, runs: pa.Table, batch_id: int, final: bool) -> Facts:
        """One micro-batch: its rows, and the coverage of all shards; `final` makes all that was reported final."""
        state, rules, minutes = self.state, self.rules, MinuteStats()
        decided = DecidedBefore.from_state(state)
        intake = sort_out(state.waiting, rows, self.bucket, self.buckets)
        broker_wide = first_seen(state, intake.broker_wide)
        source_gaps = self._advance_sources(runs, final)
        batch = number_rows(state, intake.rows, lambda: gap_limits(state, rules, final))
        conflicts = resolve_conflicts(batch)
        mark_copies(state, batch)
        gaps = apply_broker_wide(state, broker_wide, source_gaps, decided.settled)
        record_assignments(state, batch)
        clocks = compare_clocks(state, batch, rules)
        results, lookup = self._run_terms(batch, final)
        changes = self._advance_histories(lookup, batch, clocks, minutes, final)
        clock_gaps(state, gaps, clocks)
        partition_gaps(state, gaps, batch, results)
        late_rows(state, gaps, batch, decided)
        self._count(minutes, batch, results, broker_wide)
        return Facts.of(
            partition_hw=results.hw.table(),
            replica_sync=replica_sync(state, results.sync),
            replica_hw=replica_hws(state, batch, results, rules),
            isr_changes=table_of_dicts("isr_changes", changes.isr_changes),
            hw_regressions=table_of_dicts("hw_regressions", changes.regressions),
            telemetry_gaps=gaps.table(self.bucket, self.buckets, minutes),
            minute_stats=minutes.table(batch_id),
            quarantine=quarantine_rows(intake.rejected, batch, results, conflicts),
        )

    def _advance_sources(self, runs: pa.Table, final: bool) -> list[Gap]:
        """Moves the low watermarks of the sources, over gaps that have been waited for long enough."""
        sources = self.state.sources
        gaps = sources.advance(runs)
        for cluster in {s.cluster for s in sources.known.values()}:
            gaps += sources.expire_gaps(cluster, everything=final)
        return gaps

    def _run_terms(self, batch: Batch, final: bool) -> tuple[TermResults, StateTermLookup]:
        """Runs the lanes over the batch; (their results, the look-up of histories that goes with them)."""
        state, rules = self.state, self.rules
        before = {name: state.lanes[name].copy() for name in ("hw", "term_start")}
        results = run_terms(state, rules, batch, watermarks(state, final), final)
        remember_lines(state, batch, results.consumed, rules)
        keep_waiting(state, batch, results)
        record_ended_terms(state, results)
        race_window_us, grace_us = rules.race_window_ms * 1000, rules.reorder_grace_ms * 1000
        return results, StateTermLookup(state, rules, before, results, race_window_us, grace_us)

    def _advance_histories(
        self, lookup: StateTermLookup, batch: Batch, clocks: list[WrongClock], minutes: MinuteStats, final: bool
    ) -> HistoryChanges:
        """Hands rare events to the histories, advances these to the low watermark, and drops what none asks for now."""
        state, results = self.state, lookup.results
        low_watermark = cluster_low_watermarks(state, final)
        upto = history_limits(state, low_watermark, batch, results)
        queue_clocks(state, clocks)
        queue_partition_events(state, batch, results)
        start_first_terms(state, lookup, upto, minutes)
        changes = advance_histories(state, lookup, upto)
        clusters = [str(name[0]) for name in state.clusters.all]
        if not final:
            state.sources.settled.update({name: low_watermark[number] for number, name in enumerate(clusters)})
        settled = {number: state.sources.settled.get(name, -1) for number, name in enumerate(clusters)}
        asked_from = history_limits(state, settled, batch, results) - 2 * lookup.race_window_us
        trim_timeline(state, results, lookup.before, asked_from)
        count_gauge_moves(state, changes.gauge_moves, minutes)
        count_changes(changes.isr_changes, changes.regressions, minutes)
        self._forget(low_watermark)
        return changes

    def _forget(self, low_watermark: dict[int, int]) -> None:
        """Drops ended terms and gaps that no history will ask for any more."""
        state, grace = self.state, self.rules.reorder_grace_ms * 1000
        if len(state.ended_terms) > KEPT_TERMS:
            cluster, kept_us = state.lanes["cluster"], ENDED_TERM_GRACES * grace
            state.ended_terms = {
                key: term
                for key, term in state.ended_terms.items()
                if term[0] >= low_watermark[int(cluster[key[0]])] - kept_us
            }
        oldest = min(low_watermark.values(), default=-1) - GAP_GRACES * grace
        state.gap_times, state.misread_times = (
            {broker: kept for broker, times in known.items() if (kept := [ts for ts in times if ts > oldest])}
            for known in (state.gap_times, state.misread_times)
        )

    def _count(self, minutes: MinuteStats, batch: Batch, results: TermResults, broker_wide: pa.Table) -> None:
        minutes.add_results(self.state, batch, results)
        minutes.add_hw(self.state, results.hw)
        minutes.add_sync(self.state, results.sync)
        count_broker_wide(self.bucket, self.buckets, broker_wide, minutes)


def _coverage(rows: SourcedRows) -> pa.Table:
    """The coverage of the rows of one micro-batch."""
    complete = not any(rows.events[name].null_count for name in KEY_COLUMNS)
    return coverage_of_rows(rows) if complete else coverage_of(rows.events)


def replay(events: pa.Table, rules: Rules | None = None) -> Facts:
    """All facts of a whole history: update, then finish."""
    reconstructor = Reconstructor(rules)
    return Facts.concat([reconstructor.update(events), reconstructor.finish()])
