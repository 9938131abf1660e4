"""One micro-batch of one shard: its rows go through sources, terms and histories, and become final facts."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.replication.batch.advance_histories import HistoryChanges, advance_histories
from pipelines.replication.batch.broker_wide import apply_broker_wide, first_rejected, first_seen
from pipelines.replication.batch.clock_offsets import WrongClock, compare_clocks
from pipelines.replication.batch.copied_lines import NO_COPIES, RareLines, mark_copies, remember_lines
from pipelines.replication.batch.ended_terms import trim_earlier
from pipelines.replication.batch.gaps import GapRows, clock_gaps, late_rows, partition_gaps
from pipelines.replication.batch.hw_timeline import trim_timeline
from pipelines.replication.batch.lane_jobs import history_limits, sample_limits, watermarks
from pipelines.replication.batch.minute_stats import MinuteStats, count_broker_wide, count_changes, count_gauge_moves
from pipelines.replication.batch.quarantine import (
    NO_CONFLICTS,
    NO_ROWS,
    contradicting_rows,
    quarantine_rows,
    resolve_conflicts,
)
from pipelines.replication.batch.rare_events import (
    queue_clocks,
    queue_follower_hws,
    queue_partition_events,
    queue_words,
    record_assignments,
    start_first_terms,
)
from pipelines.replication.batch.read import NO_EVENTS, Batch, number_rows, own_rows, sort_out
from pipelines.replication.batch.replica_hws import with_reported_hws
from pipelines.replication.batch.run_terms import TermResults, run_terms
from pipelines.replication.batch.samples import Predicted, apply_samples, record_rounds
from pipelines.replication.batch.samples_and_logs import release_hws
from pipelines.replication.batch.sequencing import gap_limits
from pipelines.replication.batch.term_lookup import StateTermLookup
from pipelines.replication.compiled.types import I64
from pipelines.replication.events.columns import with_dictionaries
from pipelines.replication.facts.columns import replica_hw, replica_sync, table_of_dicts
from pipelines.replication.facts.tables import EMPTY, Facts
from pipelines.replication.rules import Rules
from pipelines.replication.state.state import State
from pipelines.replication.telemetry.closings import Held, hold, joined
from pipelines.replication.telemetry.coverage import KEY_COLUMNS, SourcedRows, coverage_of_rows
from pipelines.replication.telemetry.coverage import coverage as coverage_of
from pipelines.replication.telemetry.evidence import find_evidence
from pipelines.replication.telemetry.source import Gap
from pipelines.replication.telemetry.sources import Decided
from schemas.replication_events import DRAIN


@dataclass(slots=True)
class Shard:
    """Shard `bucket` of `buckets`, which owns the state of its partitions."""

    state: State
    rules: Rules
    bucket: int = 0
    buckets: int = 1

    def update(self, events: pa.Table, coverage: pa.Table | None = None, batch_id: int = 0) -> Facts:
        """Return the facts that are final once `events` are known; see `Reconstructor.update`."""
        events = with_dictionaries(events)
        rows = SourcedRows(events)
        runs = _coverage(rows) if coverage is None else coverage
        if any(self.state.closings.waiting.values()) or pc.any(pc.equal(runs["source_id"], DRAIN)).as_py():
            return Facts.concat(self._until_closed(self.state.closings.add(events), runs, batch_id))
        return self._step(rows, runs, batch_id)

    def finish(self, batch_id: int = 0) -> Facts:
        """Make final what every source has reported so far."""
        empty, facts = with_dictionaries(NO_EVENTS), list[Facts]()
        if any(self.state.closings.waiting.values()):
            facts += self._until_closed(empty, coverage_of(empty), batch_id, everything=True)
        return Facts.concat([*facts, self._close(self.state.sources.clusters(), batch_id)])

    def _until_closed(
        self, events: pa.Table, runs: pa.Table, batch_id: int, everything: bool = False
    ) -> Iterator[Facts]:
        """The facts of these events, closing row by closing row; what stands behind one that waits is held."""
        closings, (events, runs) = self.state.closings, joined(self.state.held, events, runs)
        while True:
            before, behind = closings.part(SourcedRows(events), runs)
            if self.buckets == 1:  # all rows are here: when the cut was in the middle of a run they say
                before, behind = (Held(part.events, coverage_of(part.events)) for part in (before, behind))
            yield self._step(SourcedRows(before.events), before.runs, batch_id)
            closed = closings.take(self.state.sources, behind.runs, everything)
            if not closed:
                break
            yield self._close(closed, batch_id)
            events, runs = behind
        self.state.held = hold(behind)

    def _close(self, closed: Set[str], batch_id: int) -> Facts:
        """Make final what the sources of these clusters have reported so far."""
        empty = with_dictionaries(NO_EVENTS)
        return self._step(SourcedRows(empty), coverage_of(empty), batch_id, closed)

    def _step(self, rows: SourcedRows, runs: pa.Table, batch_id: int, closed: Set[str] = frozenset()) -> Facts:
        """One micro-batch: its rows, and the coverage of all shards; all that clusters told that are `closed` is final.

        What most micro-batches have nothing of stands behind a condition, here and in the methods below: on their rows,
        or on what earlier ones have left in the state. Such a step would change nothing where its condition fails.
        """
        state, rules, minutes, gaps = self.state, self.rules, MinuteStats(), GapRows()
        decided = state.sources.decided()
        intake = sort_out(state.waiting, rows, self.bucket, self.buckets)
        broker_wide, contradicting = intake.broker_wide, NO_ROWS
        if broker_wide.num_rows:
            broker_wide, contradicting = first_seen(state, broker_wide)
        rejected = first_rejected(state, intake.rejected) if intake.rejected.num_rows else intake.rejected
        source_gaps = self._advance_sources(runs, closed)
        if intake.of_all.num_rows:
            state.sources.record_brokers(intake.of_all)
        batch = number_rows(state, intake, lambda: gap_limits(state, rules, closed))
        covered = find_evidence(state.sources, own_rows(broker_wide, self.bucket, self.buckets), closed)
        conflicts = resolve_conflicts(batch) if len(batch.accepted.conflicts) else NO_CONFLICTS
        lines = RareLines.of(state, batch) if len(batch.rare) else None
        counted = mark_copies(state, batch, lines) if lines is not None and len(lines.rows) else NO_COPIES
        if broker_wide.num_rows or source_gaps:
            apply_broker_wide(state, gaps, broker_wide, source_gaps, decided.settled)
        if len(batch.columns.replicas_ids):
            record_assignments(state, batch)
        if broker_wide.num_rows and state.has_watcher:
            record_rounds(state, broker_wide)
        clocks = compare_clocks(state, batch, rules) if (batch.columns.partition_epoch >= 0).any() else []
        results, lookup = self._run_terms(batch, lines, closed)
        changes = self._advance_histories(lookup, batch, clocks, minutes, closed)
        self._find_gaps(gaps, batch, results, clocks, decided)
        gaps.of_partitions += changes.contradictions
        self._count(minutes, batch, results, broker_wide)
        if len(counted):
            minutes.take_back(state, batch, counted[results.consumed[batch.rare[counted]] == 1])
        tables = self._tables(batch, results, changes)
        if gaps.of_sources or gaps.of_partitions:
            tables["telemetry_gaps"] = gaps.table(self.bucket, self.buckets, minutes)
        if covered:
            tables["coverage"] = table_of_dicts("coverage", covered)
        if rejected.num_rows or len(conflicts.rows) or len(contradicting):
            aside = contradicting_rows(batch.events, contradicting, self.bucket, self.buckets)
            tables["quarantine"] = quarantine_rows([rejected, *aside], batch, results, conflicts)
        return Facts(**EMPTY | tables | {"minute_stats": minutes.table(batch_id)})

    def _advance_sources(self, runs: pa.Table, closed: Set[str]) -> list[Gap]:
        """Move the low watermarks of the sources, over gaps that have been waited for long enough."""
        sources = self.state.sources
        gaps = sources.advance(runs)
        for cluster in sources.clusters():
            gaps += sources.expire_gaps(cluster, everything=cluster in closed)
        return gaps

    def _run_terms(
        self, batch: Batch, lines: RareLines | None, closed: Set[str]
    ) -> tuple[TermResults, StateTermLookup]:
        """Run the lanes over the batch; (their results, the look-up of histories that goes with them)."""
        state, rules = self.state, self.rules
        before = {name: state.lanes[name].copy() for name in ("hw", "reported", "term_start")}
        results = run_terms(state, rules, batch, watermarks(state, closed), closed)
        if lines is not None or state.lines_read.count:
            remember_lines(state, batch, lines, results.consumed, rules)
        state.waiting = batch.bronze_rows(results.left)
        predicted: Predicted = {}
        if state.has_watcher:
            limits = sample_limits(state, state.cluster_low_watermarks(closed), batch.accepted)
            results, predicted = apply_samples(state, rules, batch, results, limits)
        race_window_us, grace_us = rules.race_window_ms * 1000, rules.reorder_grace_ms * 1000
        lookup = StateTermLookup(state, rules, before, results, race_window_us, grace_us, predicted)
        if state.has_watcher:
            release_hws(state, results, lookup, limits)
        return results, lookup

    def _advance_histories(
        self, lookup: StateTermLookup, batch: Batch, clocks: list[WrongClock], minutes: MinuteStats, closed: Set[str]
    ) -> HistoryChanges:
        """Hand rare events to the histories, advance these to the low watermark, and drop what none asks for now."""
        state, results = self.state, lookup.results
        low_watermark = state.cluster_low_watermarks(closed)
        upto = history_limits(state, low_watermark, batch, results.left)
        if clocks:
            queue_clocks(state, clocks)
        queue_partition_events(state, batch, results, lookup.predicted)
        if len(results.sync["lane"]):
            queue_words(state, results.sync)
        if closed:
            queue_follower_hws(state, closed)
        if state.pending_starts.num_rows:
            start_first_terms(state, lookup, upto, minutes)
        changes = advance_histories(state, lookup, upto) if state.histories_wait else HistoryChanges()
        clusters = enumerate(state.clusters.all)
        settled = {str(name): low_watermark[number] + 1 for number, (name,) in clusters if name not in closed}
        state.sources.settled.update(settled)
        known = len(lookup.before["hw"])
        kept = state.recent_hws.count or state.earlier_terms.count
        trims = kept or results.hw.blocks or state.lanes["pending"][:known].any()
        if trims or state.forgets:
            asked_from = self._asked_from(lookup, batch)
            trim_timeline(state, results, lookup.before, asked_from)
            trim_earlier(state, asked_from)
            state.forget(asked_from, self.rules.reorder_grace_ms * 1000)
        count_gauge_moves(state, changes.gauge_moves, minutes)
        count_changes(changes.isr_changes, changes.regressions, minutes)
        return changes

    def _asked_from(self, lookup: StateTermLookup, batch: Batch) -> I64:
        """By partition from which time on a history, or a sample, may still ask for an HW."""
        settled = self.state.sources.settled
        by_cluster = {number: settled.get(str(name[0]), -1) for number, name in enumerate(self.state.clusters.all)}
        limits = sample_limits(self.state, by_cluster, batch.accepted)
        return history_limits(self.state, limits, batch, lookup.results.left) - 2 * lookup.race_window_us

    def _find_gaps(
        self, gaps: GapRows, batch: Batch, results: TermResults, clocks: list[WrongClock], decided: Decided
    ) -> None:
        """Add what is wrong with the rows of partitions: clocks, lost numbers, rows that come too late."""
        state = self.state
        if clocks:
            clock_gaps(state, gaps, clocks)
        if len(batch.accepted.gaps):
            partition_gaps(state, gaps, batch, results)
        late_until = np.array([decided.late_until(name) for name in state.source_names.all], dtype=np.int64)
        if state.lost_numbers or (late_until >= 0).any():
            late_rows(state, gaps, batch, late_until)

    def _count(self, minutes: MinuteStats, batch: Batch, results: TermResults, broker_wide: pa.Table) -> None:
        minutes.add_results(self.state, batch, results)
        if results.hw.blocks:
            minutes.add_hw(self.state, results.hw)
        if broker_wide.num_rows:
            count_broker_wide(self.bucket, self.buckets, broker_wide, minutes)

    def _tables(self, batch: Batch, results: TermResults, changes: HistoryChanges) -> dict[str, pa.Table]:
        """The tables of facts that have rows."""
        tables = {}
        if results.hw.blocks:
            tables["partition_hw"] = results.hw.table()
        if len(results.sync["lane"]):
            tables["replica_sync"] = replica_sync(self.state, results.sync)
            tables["replica_hw"] = replica_hw(self.state, results.sync)
        if self.rules.replica_hw and len(results.follower_hws[0]):
            tables["replica_hw"] = with_reported_hws(tables.get("replica_hw", EMPTY["replica_hw"]), batch, results)
        for name, found in (("isr_changes", changes.isr_changes), ("hw_regressions", changes.regressions)):
            if found:
                tables[name] = table_of_dicts(name, found)
        return tables


def _coverage(rows: SourcedRows) -> pa.Table:
    """The coverage of the rows of one micro-batch."""
    complete = not any(rows.events[name].null_count for name in KEY_COLUMNS)
    return coverage_of_rows(rows) if complete else coverage_of(rows.events)
