"""A step that most micro-batches do not need is made where only the state asks for it, and their rows name nothing."""

from __future__ import annotations

import pytest

from pipelines.replication import Reconstructor, Rules
from pipelines.replication.batch import steps
from pipelines.replication.facts.tables import Facts
from tests.unit.replication.bronze import BASE_MS, Source, controller, events_of, values_of
from tests.unit.replication.test_rules_set_of_events import deposed_leader_goes_on


class Run:
    """Micro-batches one after the other; with `restart` the state is restored before each."""

    def __init__(self, restart: bool = True, **rules: int) -> None:
        self.reconstructor, self.restart = Reconstructor(Rules(**rules)), restart

    @property
    def state(self):
        return self.reconstructor.state

    def batch(self, *sources: Source) -> Facts:
        """The facts of the rows that these sources have written since they were asked last."""
        if self.restart:
            self.reconstructor = Reconstructor.restore(self.reconstructor.snapshot())
        rows = [row for source in sources for row in source.rows]
        for source in sources:
            source.rows = []
        return self.reconstructor.update(events_of(rows))


STEPS = (
    "mark_copies", "remember_lines", "apply_broker_wide", "record_assignments", "record_rounds", "compare_clocks",
    "queue_clocks", "start_first_terms", "advance_histories", "clock_gaps", "partition_gaps", "late_rows",
    "trim_timeline", "replica_sync", "replica_hw", "table_of_dicts", "resolve_conflicts", "quarantine_rows",
)  # fmt: skip


def begun(run: Run) -> Source:
    """A leader that has its first term decided, and everything final up to second 40."""
    source = Source().leader(0, 0, 0, 0, [1, 2], replicas=[1, 2]).append(10, 5).fetch(20, 2, 5).hw(21, 5)
    for ms in (20_000, 30_000, 40_000):
        run.batch(source.progress(ms))
    return source


def test_a_fetch_that_moves_no_hw_enters_none_of_these_steps(monkeypatch):
    run, entered = Run(), []
    source = begun(run).append(41_000, 7)
    for ms in (90_000, 110_000, 110_500):
        run.batch(source.progress(ms))
    for name in STEPS:
        monkeypatch.setattr(steps, name, lambda *_, name=name: entered.append(name))
    run.batch(source.fetch(111_000, 2, 5))
    assert entered == []


def test_a_start_that_waits_for_the_low_watermark_becomes_a_first_term():
    run, source = Run(), Source().leader(0, 0, 0, 0, [1, 2], replicas=[1, 2])
    run.batch(source.progress(1))
    assert (run.state.pending_starts.num_rows, run.state.first_terms.table().num_rows) == (1, 0)
    run.batch(source.progress(20_000))
    assert (run.state.pending_starts.num_rows, run.state.first_terms.table().num_rows) == (0, 1)


def test_a_first_term_is_decided():
    run = Run()
    source = begun(run).on(partition=1).leader(50_000, 0, 0, 0, [1, 2], replicas=[1, 2])
    run.batch(source.progress(50_010))
    assert run.state.first_terms.decided.tolist() == [True, False]
    assert not run.state.due
    run.batch(source.progress(50_500))
    assert run.state.first_terms.decided.tolist() == [True, True]


def test_an_event_that_waits_for_the_low_watermark_is_applied():
    run, source = Run(), controller().election(0, 1, 0, partition_epoch=0, isr=[1, 2])
    source.isr(300, [1], 1, "controller", leader_id=1, leader_epoch=0)
    assert run.batch(source.progress(5000)).isr_changes.num_rows == 0
    assert run.state.queued_events
    assert not run.state.due
    assert values_of(run.batch(source.progress(20_000)).isr_changes, "ms", "change") == [(300, "shrink")]


def test_a_decision_is_taken_when_it_falls_due():
    run = Run()
    source = begun(run).isr(50_000, [1], 1)
    assert run.batch(source.progress(50_050)).isr_changes.num_rows == 0
    assert run.state.due
    assert not run.state.queued_events
    assert values_of(run.batch(source.progress(52_000)).isr_changes, "ms", "change") == [(50_000, "shrink")]


def test_what_a_deposed_leader_commits_is_judged_with_nothing_queued_or_due():
    run, source, losses = Run(reorder_grace_ms=3000), Source(), []
    for row in deposed_leader_goes_on():
        waits = bool(run.state.queued_events or run.state.due)
        source.rows = [row]
        found = run.batch(source).hw_regressions.to_pylist()
        losses += [(row["revision"], row["lost_to"], waits) for row in found]
    assert losses[-1] == (3, 20, False)


def test_lines_read_are_forgotten_in_micro_batches_without_rare_rows():
    run = Run()
    source = begun(run)
    assert run.state.lines_read.count == 1
    for ms in (60_000, 70_000, 80_000):
        run.batch(source.progress(ms))
    assert run.state.lines_read.count == 0


def test_a_line_in_another_file_is_marked_in_a_micro_batch_of_its_own():
    run, other = Run(), Source("broker-1/state-change.log", level=0)
    begun(run)
    run.batch(other.leader(0, 0, 0, 0, [1, 2], replicas=[1, 2]))
    assert not run.state.queued_events
    assert not run.state.histories


def test_a_row_with_a_number_declared_lost_is_late():
    run = Run()
    source = begun(run).append(41_000, 6)
    kept = source.rows.pop()
    run.batch(source.append(42_000, 7).progress(60_000))
    run.batch(source.progress(75_000))
    source.rows = [kept]
    late = run.batch(source).telemetry_gaps
    assert values_of(late, "ms", "kind", "seq_from") == [(41_000, "late", kept["seq"])]


def test_rows_of_a_source_that_is_waited_for_no_longer_are_late():
    run = Run()
    source = begun(run)
    other = Source("broker-2/replication.log").progress(40_000)
    for ms in (40_000, 55_000, 70_000):
        run.batch(source.progress(ms), other)
    late = run.batch(other.follower(50_000, 1, 5, 5, 1)).telemetry_gaps
    assert values_of(late, "ms", "series", "kind") == [(50_000, "partition", "late")]


def test_the_first_rows_of_a_source_that_nobody_knew_are_late():
    run = Run()
    begun(run)
    late = run.batch(Source("broker-2/replication.log").follower(1, 0, 0, 0, 1)).telemetry_gaps
    assert values_of(late, "ms", "series", "kind") == [(1, "partition", "late")]


def test_a_clock_is_judged_by_an_epoch_that_an_earlier_micro_batch_recorded():
    run, recorded = Run(), controller(controller_epoch=1, committed=True)
    recorded.election(0, 1, 0, partition_epoch=0, isr=[1, 2]).election(40_000, 2, 1, partition_epoch=1, isr=[2])
    behind = Source("broker-2/replication.log").progress(-60_000).leader(-30_000, 1, 9, 9, [2], replicas=[1, 2])
    parts = [run.batch(recorded.progress(41_000)), run.batch(behind), run.batch(recorded.progress(80_000))]
    parts.append(run.batch(behind.progress(10_000)))
    clocks = values_of(Facts.concat(parts).telemetry_gaps, "source_id", "detail", kind="clock", series="partition")
    assert clocks == [("broker-2/replication.log", "-70000")]


def test_the_assignment_that_an_earlier_micro_batch_named_holds_at_a_start_that_names_none():
    run = Run()
    source = begun(run)
    assert run.state.assignments.any_known
    run.batch(source.leader(50_000, 1, 5, 5, [1], replicas=None).append(50_010, 7).progress(70_000))
    assert run.reconstructor.health()["ar"].to_pylist() == [[1, 2]]


@pytest.mark.parametrize("restart", [False, True])
def test_a_setting_that_an_earlier_micro_batch_recorded_holds(restart):
    run, source = Run(restart), Source()
    run.batch(source.config(0, min_isr=2).progress(1))
    source.leader(10, 0, 0, 0, [1], replicas=[1, 2]).append(20, 5)
    parts = [run.batch(source.progress(ms)) for ms in (20_000, 40_000)]
    assert values_of(Facts.concat(parts).partition_hw, "frozen", kind="freeze") == [True]


def test_hws_that_no_history_will_ask_for_are_dropped_in_a_micro_batch_without_any():
    run = Run()
    source = begun(run).append(50_000, 9).fetch(50_020, 2, 9)
    run.batch(source.progress(50_300))
    assert run.state.recent_hws.count == 2
    run.batch(source.progress(52_500))
    assert run.state.recent_hws.count == 0


def test_the_hw_before_one_that_is_pending_is_kept():
    run = Run()
    source = begun(run)
    assert run.state.recent_hws.count == 0
    run.batch(source.append(50_000, 9).fetch(50_020, 2, 9))
    assert run.state.lanes["pending"].tolist() == [1]
    assert run.state.recent_hws["hw"].tolist() == [5]


def test_hws_that_are_final_are_kept_until_histories_have_passed_them():
    run, source = Run(), Source().leader(0, 0, 0, 0, [1], replicas=[1]).append(100, 9)
    run.batch(source.progress(5000))
    assert run.state.sources.settled["c"] < BASE_MS * 1000
    assert 9 in run.state.recent_hws["hw"].tolist()
