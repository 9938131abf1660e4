"""A line that two appenders write into two files is one event: the k-th of one pairs with the k-th of another."""

from __future__ import annotations

import pytest

from pipelines.replication import Reconstructor, replay
from pipelines.replication.facts.tables import Facts
from tests.unit.replication.bronze import Source, events_of

SILVER = ("partition_hw", "isr_changes", "replica_sync", "hw_regressions")


def story(telemetry: Source) -> Source:
    """Broker 1 leads twice; between the terms it follows broker 2 and cuts its log."""
    telemetry.leader(0, epoch=0, leo=0, hw=0, isr=[1, 2]).append(10, 5).fetch(20, 2, 5).hw(20, 5)
    telemetry.isr(50, [1], 1).append(60, 9).hw(60, 9)
    telemetry.follower(100, epoch=1, leo=9, hw=9, of=2).truncate(110, 7)
    return telemetry.leader(200, epoch=2, leo=8, hw=7, isr=[1], partition_epoch=3).progress(9000)


def second_file(rows, source_id="broker-1/state-change.log"):
    """The lines that a second appender of the broker writes as well, with numbers of their own."""
    kept = [r for r in rows if r["event_type"] in ("leader", "follower", "isr", "truncate")]
    return [r | {"source_id": source_id, "level": 0, "seq": k, "source_seq": k} for k, r in enumerate(kept)]


def silver(facts: Facts) -> dict[str, list[str]]:
    return {name: sorted(map(repr, getattr(facts, name).to_pylist())) for name in SILVER}


def one_file():
    return silver(replay(events_of(story(Source()).rows)))


def test_a_line_in_two_files_is_one_event():
    rows = story(Source()).rows
    assert silver(replay(events_of([*rows, *second_file(rows)]))) == one_file()


def test_the_files_may_come_one_after_the_other_in_either_order():
    rows = story(Source()).rows
    for batches in ([rows, second_file(rows)], [second_file(rows)[:1], rows, second_file(rows)[1:]]):
        reconstructor, parts = Reconstructor(), []
        for batch in batches:
            reconstructor = Reconstructor.restore(reconstructor.snapshot())
            parts.append(reconstructor.update(events_of(batch)))
        assert silver(Facts.concat([*parts, reconstructor.finish()])) == one_file()


@pytest.mark.parametrize("lines", [slice(None), slice(-1, None)], ids=["all of it", "the last start alone"])
def test_a_second_file_that_comes_long_after_shows_no_loss(lines):
    """Its last start was a second one in that leader epoch, behind all that had been committed since the first."""
    telemetry = Source().leader(0, 0, 0, 0, [1, 2], replicas=[1, 2]).append(10, 5).fetch(20, 2, 5).hw(20, 5)
    telemetry.leader(200, 1, 5, 5, [1, 2], replicas=[1, 2]).append(300, 9).fetch(310, 2, 9).hw(310, 9)
    telemetry.append(10_000, 90).fetch(10_010, 2, 90).hw(10_010, 90).progress(300_000).progress(400_000)
    copies = [r | {"seq": k, "source_seq": k} for k, r in enumerate(second_file(telemetry.rows)[lines])]
    later = telemetry.rows[-1:]
    reconstructor = Reconstructor()
    parts = [reconstructor.update(events_of(rows)) for rows in (telemetry.rows, later, copies)]
    told = Facts.concat([*parts, reconstructor.finish()]).hw_regressions.to_pylist()
    assert [row["class"] for row in told if row["severity"] == "critical"] == []


def test_two_equal_lines_of_one_file_are_two_events():
    telemetry = Source()
    telemetry.leader(0, epoch=0, leo=0, hw=0, isr=[1, 2]).append(5, 40).fetch(6, 2, 40)
    telemetry.truncate(110, 7).truncate(110, 7).progress(9000)
    both = [*telemetry.rows, *second_file(telemetry.rows)]
    assert events_counted(telemetry.rows) == len(telemetry.rows)
    assert events_counted(both) == len(telemetry.rows)


def events_counted(rows):
    return sum(dict(row["counts"])["events"] for row in replay(events_of(rows)).minute_stats.to_pylist())


def test_equal_lines_of_two_brokers_are_two_events():
    one = Source().follower(100, epoch=1, leo=9, hw=9, of=3).progress(9000)
    two = Source("broker-2/replication.log").follower(100, epoch=1, leo=9, hw=9, of=3).progress(9000)
    reconstructor = Reconstructor()
    reconstructor.update(events_of([*one.rows, *two.rows]))
    reconstructor.finish()
    assert sorted(reconstructor.state.history(0).terms.positions) == [1, 2]


@pytest.mark.parametrize("times", [2, 3])
def test_equal_starts_of_one_file_do_not_make_the_reconstruction_loop(times):
    """Two terms with one start: the HW of the first one rises after it is over, again and again."""
    telemetry = Source()
    for _ in range(times):
        telemetry.leader(0, epoch=0, leo=0, hw=0, isr=[1])
    telemetry.append(10, 5).hw(10, 5).append(20_000, 7).hw(20_000, 7).progress(60_000)
    assert replay(events_of(telemetry.rows)).partition_hw.num_rows > 0


def test_the_file_that_reports_most_speaks_for_the_leader():
    """What is final depends on how far replication.log has come, not on the file that copies some of its lines."""
    rows = story(Source()).rows
    reconstructor = Reconstructor()
    reconstructor.update(events_of([*rows, *second_file(rows)]))
    state = reconstructor.state
    home = state.source_names.all[int(state.lanes["home"][0])]
    assert home[1] == "broker-1/replication.log"


def test_a_line_that_waits_is_no_copy_of_its_own_copy():
    """The ISR change waits in one file for what others may report of min ISR; its copy was read at once."""
    telemetry = Source().leader(0, 0, 0, 0, [1], replicas=[1, 2, 3], min_isr=2).append(10, 4).fetch(20, 2, 4, 4)
    telemetry.isr(100, [1, 2], 1).hw(101, 4).progress(101)
    copy = [r | {"source_id": "broker-1/server.log", "level": 0} for r in telemetry.rows if r["event_type"] == "isr"]
    copy[0] |= {"seq": 0, "source_seq": 0}
    more = Source("broker-9/controller.log", level=0).progress(0)
    first = events_of([*telemetry.rows, *copy, *more.rows])
    after = len(telemetry.rows)
    telemetry.append(200, 6).fetch(210, 2, 6, 6).hw(210, 6).progress(30_000)
    more.progress(30_000)
    second = events_of([*telemetry.rows[after:], *more.rows[1:]])
    reconstructor = Reconstructor()
    facts = Facts.concat([reconstructor.update(first), reconstructor.update(second), reconstructor.finish()])
    whole = replay(events_of([*telemetry.rows, *copy, *more.rows]))
    assert [r["hw"] for r in facts.partition_hw.to_pylist() if r["kind"] == "advance"] == [4, 6]
    assert silver(facts) == silver(whole)


def test_a_line_that_no_lane_read_is_no_copy_of_the_one_that_its_lane_waits_for():
    """The leader's second file names no leadership of its own, and comes a batch earlier."""
    telemetry = Source().leader(0, 0, 0, 0, [1, 2], replicas=[1, 2], min_isr=2).append(10, 9).fetch(20, 2, 9).hw(20, 9)
    telemetry.isr(1000, [1], 1, leader_epoch=0).append(1010, 20).fetch(1020, 2, 20)
    telemetry.isr(2000, [1, 2], 2, leader_epoch=0).hw(2001, 20).progress(9000)
    server = Source("broker-1/server.log", level=0).isr(2000, [1, 2], 2, leader_epoch=0).progress(9000)
    reconstructor = Reconstructor()
    batches = [[*telemetry.rows[:4], *server.rows], telemetry.rows[4:]]
    facts = Facts.concat([*(reconstructor.update(events_of(rows)) for rows in batches), reconstructor.finish()])
    rows = facts.partition_hw.to_pylist()
    assert ("advance", 20) in {(row["kind"], row["hw"]) for row in rows}
    assert "disagree" not in {row["agreement"] for row in rows}
    counts = [dict(row["counts"]).get("events", 0) for row in facts.minute_stats.to_pylist()]
    assert sum(counts) == events_counted([row for rows in batches for row in rows])
