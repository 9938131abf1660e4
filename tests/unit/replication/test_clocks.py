"""How far a clock is off: at most what its reports come after the record, at least what its requests come before it."""

from __future__ import annotations

import json

import pytest

from pipelines.replication import Reconstructor, replay
from pipelines.replication.facts.tables import Facts
from tests.unit.replication.bronze import Source, controller, events_of, table, values_of

HOUR = 3_600_000


def cluster(ahead, asks=False):
    """(sources) Broker 2, whose clock is `ahead`, follows and leads; the controller records two partition epochs."""
    recorded = controller(controller_epoch=1, committed=True)
    recorded.election(0, 1, 0, partition_epoch=0, isr=[1, 2])
    recorded.election(40_000, 2, 1, partition_epoch=1, isr=[2])
    first = Source().leader(10, 0, 0, 0, [1, 2], replicas=[1, 2]).append(20, 9).fetch(30, 2, 9).hw(30, 9)
    second = Source("broker-2/replication.log").follower(ahead + 20, 0, 0, 0, 1)
    second.leader(ahead + 40_010, 1, 9, 9, [2], replicas=[1, 2])
    if asks:
        second.proposed(ahead + 50_000, [2, 1], "expand")
        second.rows[-1]["partition_epoch"] = 1
        recorded.isr(50_100, [2, 1], 2, "controller", leader_id=2, leader_epoch=1)
    return [s.progress(s.rows[-1]["ts"] / 1000 - 1_767_225_600_000 + 40_000) for s in (recorded, first, second)]


def clocks(facts):
    return values_of(facts.telemetry_gaps, "source_id", "partition", "detail", kind="clock")


@pytest.mark.parametrize(("behind", "telemetry"), [(HOUR, "-3599990"), (70_000, "-69990"), (10_000, None), (0, None)])
def test_a_clock_that_reports_what_was_not_recorded_yet_is_behind(behind, telemetry):
    found = clocks(replay(table(*cluster(-behind))))
    assert found == ([("broker-2/replication.log", 0, telemetry)] if telemetry else [])


@pytest.mark.parametrize(("ahead", "telemetry"), [(HOUR, "3599900"), (70_000, "69900"), (10_000, None), (0, None)])
def test_a_clock_that_asked_after_it_was_answered_is_ahead(ahead, telemetry):
    found = clocks(replay(table(*cluster(ahead, asks=True))))
    assert found == ([("broker-2/replication.log", 0, telemetry)] if telemetry else [])


def test_a_broker_that_reports_late_may_have_stood_still():
    assert clocks(replay(table(*cluster(HOUR)))) == []


@pytest.mark.parametrize("cut", range(1, 12, 3))
def test_a_wrong_clock_is_published_once_however_its_telemetry_is_cut(cut):
    events = table(*cluster(-HOUR))
    first = Reconstructor()
    parts = [first.update(events.slice(0, cut))]
    second = Reconstructor.restore(first.snapshot())
    parts += [second.update(events.slice(cut)), second.finish()]
    facts = Facts.concat(parts)
    assert len(clocks(facts)) == 1
    assert values_of(facts.telemetry_gaps, "seq_from", kind="clock") == [None], "no row by which batches were cut"


def lost(ahead):
    """Broker 2 leads from 5 on though 9 was committed; its own clock is `ahead`."""
    recorded = controller(controller_epoch=1, committed=True)
    recorded.election(0, 1, 0, partition_epoch=0, isr=[1, 2])
    recorded.election(40_000, 2, 1, partition_epoch=1, isr=[2])
    first = Source().leader(10, 0, 0, 0, [1, 2], replicas=[1, 2]).append(20, 9).fetch(30, 2, 9).hw(30, 9)
    second = Source("broker-2/replication.log").follower(ahead + 20, 0, 0, 0, 1)
    second.leader(ahead + 40_010, 1, 5, 5, [2], replicas=[1, 2])
    facts = replay(table(*(s.progress(90_000) for s in (recorded, first)), second.progress(ahead + 90_000)))
    rows = [r for r in facts.hw_regressions.to_pylist() if r["class"] == "committed_loss"]
    return [(r["severity"], r["proof"], json.loads(r["evidence"]).get("missing")) for r in rows][-1:]


def test_a_verdict_across_a_wrong_clock_is_unproven():
    assert lost(0) == [("critical", "bounded", None)]
    assert lost(-HOUR) == [("warning", "unproven", ["a right clock of broker 2 (off by -3600 s)"])]


def lost_later(*more):
    """(severity, proof) What broker 2 commits on a clock an hour behind is lost, after `more` in a batch of its own."""
    recorded, first, second = cluster(-HOUR)
    sizes = [len(telemetry.rows) for telemetry in (recorded, first, second)]
    batches = [table(recorded, first, second), table(*more)]
    second.append(-HOUR + 81_000, 12).hw(-HOUR + 81_010, 12)
    recorded.election(120_000, 1, 2, partition_epoch=2, isr=[1])
    first.leader(120_010, 2, 9, 9, [1], replicas=[1, 2])
    for telemetry in (recorded, first):
        telemetry.progress(190_000)
    second.progress(-HOUR + 190_000)
    rest = zip((recorded, first, second), sizes, strict=True)
    batches.append(events_of([row for telemetry, size in rest for row in telemetry.rows[size:]]))
    reconstructor = Reconstructor()
    facts = Facts.concat([*map(reconstructor.update, batches), reconstructor.finish()])
    rows = [r for r in facts.hw_regressions.to_pylist() if r["class"] == "unclean_loss"]
    return [(r["severity"], r["proof"]) for r in rows][-1:]


def test_a_file_of_the_broker_that_was_written_late_does_not_make_its_clock_right():
    late = Source("broker-2/state-change.log", level=0).isr(75_000, [2], 1, leader_epoch=1)
    assert lost_later() == [("warning", "unproven")]
    assert lost_later(late) == [("warning", "unproven")]


def test_a_right_clock_in_a_later_incarnation_ends_the_doubt():
    right = Source("broker-2/replication.log", source_epoch=1).leader(40_030, 1, 9, 9, [2], replicas=[1, 2])
    assert lost_later(right)[0][0] == "critical"


def test_rows_of_a_source_that_begins_anew_an_hour_later_have_times():
    """It tells for less than the grace: its clock is taken for wrong, and what it told before was of another epoch."""
    first = Source().leader(0, 0, 0, 0, [1], replicas=[1]).append(10, 5).hw(10, 5).progress(1000)
    second = Source(source_epoch=1).leader(HOUR, 1, 5, 5, [1], replicas=[1]).append(HOUR + 10, 9).hw(HOUR + 10, 9)
    reconstructor = Reconstructor()
    facts = Facts.concat([*map(reconstructor.update, [table(first), table(second)]), reconstructor.finish()])
    assert values_of(facts.partition_hw, "hw", kind="advance") == [5, 9]


def test_partition_epochs_that_begin_again_with_a_restored_snapshot_leave_clocks_right():
    """Epoch 1 is recorded twice, with other ISRs: which of them a broker reports nobody knows."""
    recorded = controller(controller_epoch=1, committed=True)
    first, second = Source(), Source("broker-2/replication.log")
    recorded.election(0, 1, 0, partition_epoch=0, isr=[1, 2])
    first.leader(10, 0, 0, 0, [1, 2], replicas=[1, 2])
    for ms, leader, source in ((10_000, 1, first), (50_000, 2, second)):
        recorded.election(ms, leader, 1, partition_epoch=1, isr=[leader])
        source.leader(ms + 20, 1, 0, 0, [leader], partition_epoch=1)
    sources = [source.progress(90_000) for source in (recorded, first, second)]
    assert clocks(replay(table(*sources))) == []


@pytest.mark.parametrize(("first_leader", "first_epoch"), [(1, 2), (2, 1)], ids=["leader epoch", "leader"])
def test_an_epoch_that_only_the_controller_of_before_a_restoration_did_not_print_was_another(first_leader, first_epoch):
    """A controller at INFO prints unclean elections alone: of two partition epochs of one number only the later one."""
    recorded = controller(controller_epoch=1, committed=True).election(90_000, 1, 1, partition_epoch=1, isr=[1])
    first, second = Source(), Source("broker-2/replication.log")
    source = first if first_leader == 1 else second
    source.leader(10_000, first_epoch, 0, 0, [first_leader], partition_epoch=1)
    first.leader(90_010, 1, 0, 0, [1], partition_epoch=1)
    assert clocks(replay(table(*(source.progress(120_000) for source in (recorded, first, second))))) == []
