"""What became of partitions: series that draw the same when thinned, ISRs as stretches, happenings a line each."""

import pytest
from deltalake import DeltaTable, write_deltalake

from pipelines.lake.lake import Lake
from pipelines.lake.queries import Filter
from pipelines.timeline.happenings import timeline
from pipelines.timeline.isr import Known, Stretch, joined
from pipelines.timeline.offsets import HW, Point, offsets
from pipelines.timeline.partition import LostRange, partition_past
from schemas import partition_health
from tests.unit.project.lakes import at, health, loss, write

ORDERS, ALL = Filter("prod", "orders", 0), Filter("prod")


@pytest.fixture
def lake(tmp_path):
    return str(tmp_path / "lake")


def fetch(seconds, replica, leo, **more):
    return {
        "event_type": "fetch",
        "topic": "orders",
        "ts": at(seconds),
        "broker_id": 1,
        "replica_id": replica,
        "leo": leo,
        "level": 3,
    } | more


def advance(seconds, hw, **more):
    row = {"kind": "advance", "ts": at(seconds), "hw": hw, "leader_leo": hw, "leader_id": 1, "isr": [1, 2]}
    return row | more


def test_points_are_hw_leader_and_followers(lake):
    write(lake, "partition_hw", advance(1, 10), advance(3, 20, leader_leo=25))
    write(lake, "replication_events", fetch(2, 2, 10), fetch(4, 2, -1), fetch(2, 3, 7, topic="clicks"))
    assert offsets(Lake(lake), ORDERS) == [
        Point(at(1), HW, 10),
        Point(at(1), "broker 1", 10),
        Point(at(2), "broker 2", 10),
        Point(at(3), HW, 20),
        Point(at(3), "broker 1", 25),
    ]


def test_thinned_points_keep_every_fall_and_every_end(lake):
    """Of 10,000 fetches few are left, and the one that fell for a moment is among them."""
    rows = [fetch(i / 100, 2, 17 if i == 4321 else 1000 + i) for i in range(10_000)]
    write(lake, "replication_events", *rows)
    points = offsets(Lake(lake), ORDERS, bins=50)
    assert len(points) < 4 * 52
    assert Point(at(43.21), "broker 2", 17) in points
    assert (points[0], points[-1]) == (Point(at(0), "broker 2", 1000), Point(at(99.99), "broker 2", 10_999))


def test_a_lake_of_before_assignments_has_a_timeline(lake):
    """A column that a table lacks was a null of no type, which unnest refuses: `show timeline` ended with an error."""
    write(lake, "partition_health", health("orders", 0))
    table = DeltaTable(f"{lake}/{partition_health.TABLE.path}").to_pyarrow_table().drop_columns(["assignments"])
    write_deltalake(f"{lake}/{partition_health.TABLE.path}", table, mode="overwrite", schema_mode="overwrite")
    assert timeline(Lake(lake), ALL, 10).lines == ()


def test_without_bronze_silver_has_the_followers(lake):
    write(lake, "replica_sync", {"replica_id": 2, "state": "lagging", "leo": 5, "ts": at(1)})
    assert offsets(Lake(lake), ORDERS) == [Point(at(1), "broker 2", 5)]
    assert offsets(Lake(lake), Filter("prod", "orders", 1)) == []


def test_an_isr_becomes_stretches_of_its_replicas():
    known = [Known(at(0), (1, 2)), Known(at(10), (1,)), Known(at(20), (1, 2))]
    assert list(joined(known, at(5), at(30))) == [
        Stretch(2, at(5), at(10)),
        Stretch(1, at(5), at(30)),
        Stretch(2, at(20), at(30)),
    ]


def test_before_the_first_known_isr_nothing_is_drawn():
    assert list(joined([Known(at(8), (1,))], at(0), at(10))) == [Stretch(1, at(8), at(10))]
    assert list(joined([], at(0), at(10))) == []


def shrink(partition, seconds=5, **more):
    row = {"change": "shrink", "cause": "lag", "partition": partition, "ts": at(seconds), "removed": [3], "added": []}
    return row | {"isr_before": [1, 2, 3], "isr_after": [1, 2], "partition_epoch": 7, "revision": 1} | more


def test_one_cause_within_a_second_is_one_line(lake):
    write(lake, "isr_changes", *(shrink(n, 5 + n / 100) for n in range(12)), shrink(0, 9, partition_epoch=8))
    lines = timeline(Lake(lake), Filter("prod"), 10).lines
    assert [(line.text, line.partitions) for line in lines] == [
        ("broker 3 left the ISR (lag)", 12),
        ("broker 3 left the ISR (lag)", 1),
    ]
    assert lines[0].examples == ("orders-0", "orders-1", "orders-10")


def test_what_goes_on_moment_after_moment_is_one_line_and_says_how_long(lake):
    write(lake, "isr_changes", *(shrink(n % 412, 5 + n / 150) for n in range(450)))
    (line,) = timeline(Lake(lake), Filter("prod"), 10).lines
    said = "broker 3 left the ISR (lag): 412 partitions within 2 s (orders-0, orders-1, orders-10 and 409 more)"
    assert (line.summary, line.broker_id) == (said, 3)


def test_a_leader_that_wakes_in_its_old_epoch_tells_nothing_of_replicas(lake):
    out = {"state": "out_of_sync", "previous_state": "in_sync", "reason": "silent", "replica_id": 2}
    rows = [(5, 4, {}), (50, 5, {"replica_id": 3}), (60, 4, {})]
    write(lake, "replica_sync", *(out | {"ts": at(ts), "leader_epoch": epoch} | more for ts, epoch, more in rows))
    assert told(lake) == [
        (5, "sync", "broker 2 out of sync (silent): orders-0"),
        (50, "sync", "broker 3 out of sync (silent): orders-0"),
    ]


def config(seconds, **more):
    wide = {
        "event_type": "config",
        "broker_id": 1,
        "partition": -1,
        "topic": None,
        "level": 0,
        "source_id": "broker-1/x",
    }
    return wide | {"ts": at(seconds)} | more


def state(seconds, detail, **more):
    row = {"event_type": "broker_state", "replica_id": 3, "broker_id": 1, "topic": None, "partition": -1, "level": 1}
    return row | {"ts": at(seconds), "detail": detail} | more


def told(lake, wanted=ALL, **more):
    found = timeline(Lake(lake), wanted, 50, **more).lines
    return [((line.ts - at(0)).total_seconds(), line.kind, line.summary) for line in found]


def test_a_setting_is_told_when_it_changes_and_from_what_to_what(lake):
    topic = {"topic": "orders"}
    write(lake, "replication_events", config(1, min_isr=2, **topic), config(2, min_isr=2, **topic),
          config(3, min_isr=1, **topic), config(4, min_isr=2), config(5, detail="rack=a", replica_id=2),
          config(6, detail="rack=b", replica_id=2), config(7, detail="kafka=4.1.1"))  # fmt: skip
    assert told(lake) == [
        (3, "config", "min.insync.replicas of orders: 2 to 1"),
        (6, "config", "rack of broker 2: a to b"),
    ]
    assert told(lake, Filter("prod", "clicks")) == told(lake)[1:]
    assert told(lake, broker=2) == told(lake)[1:]


def test_a_broker_that_a_watcher_asks_again_and_again_is_a_line_for_each_change(lake):
    said = ["answers", "answers", "no_answer: refused", "no_answer: timed out", "answers"]
    quorum = [state(n, "quorum: 3 of 3") for n in range(3)]
    write(lake, "replication_events", *(state(n, detail) for n, detail in enumerate(said)), *quorum)
    assert told(lake) == [(2, "broker", "broker 3: no answer: refused"), (4, "broker", "broker 3: answers")]


def test_alerts_notes_windows_and_gates_stand_among_what_happened(lake):
    write(lake, "isr_changes", shrink(0, 30))
    write(lake, "alerts", {
        "alert_id": "a1", "rule": "under_min_isr", "severity": "warning", "state": "firing", "first_ts": at(20),
        "last_ts": at(60), "summary": "1 partition", "labels": [("cluster", "prod"), ("brokers", "3")]})  # fmt: skip
    lists = {name: [] for name in ("firing", "brokers", "topics", "partitions")}
    write(lake, "incidents", lists | {"incident_id": "i1", "alert_ids": ["a1"], "last_ts": at(60)})
    write(lake, "notes", {"text": "hwmark gate: YES: broker 3 may be stopped now", "written_at": at(10)},
          {"text": "done", "incident_id": "i1", "author": "ops", "written_at": at(40)})  # fmt: skip
    window = {"downtime_id": "w", "brokers": [2], "begins": at(15), "until": at(900), "reason": "kernel"}
    write(lake, "downtimes", window, window | {"until": at(600), "written_at": at(50)})
    assert told(lake) == [
        (10, "gate", "YES: broker 3 may be stopped now"),
        (15, "downtime", "broker 2 may be away until 2026-09-01 12:10:00 UTC: kernel"),
        (20, "alert", "alert under_min_isr (a1), now firing: 1 partition"),
        (30, "ISR", "broker 3 left the ISR (lag): orders-0"),
        (40, "note", "done (ops)"),
    ]
    assert [kind for _, kind, _ in told(lake, broker=2)] == ["gate", "downtime", "note"]
    assert [line.incident_id for line in timeline(Lake(lake), ALL, 50).lines] == [None, None, "i1", None, "i1"]
    assert [kind for _, kind, _ in told(lake, newest=True)] == [kind for _, kind, _ in told(lake)]
    newest = timeline(Lake(lake), ALL, 2, newest=True)
    assert ([line.kind for line in newest.lines], newest.left_out) == (["ISR", "note"], 3)


def test_only_the_latest_revision_happened(lake):
    write(lake, "isr_changes", shrink(0), shrink(0, revision=2, cause="controller_fenced"))
    write(lake, "hw_regressions", loss(ts=at(6)), loss(ts=at(6), revision=2, lost_records=100))
    assert [line.text for line in timeline(Lake(lake), Filter("prod"), 10).lines] == [
        "broker 3 left the ISR (fenced by the controller)",
        "100 offsets lost: unclean election of broker 2 after broker 1",
    ]


def test_a_period_has_a_beginning_and_an_end(lake):
    write(lake, "isr_changes", *(shrink(0, seconds, partition_epoch=seconds) for seconds in (1, 5, 9)))
    period = Filter("prod", since=at(2), until=at(5))
    assert [line.ts for line in timeline(Lake(lake), period, 10).lines] == [at(5)]


def test_a_broker_state_that_a_controller_repeats_happened_once(lake):
    state = {"event_type": "broker_state", "replica_id": 3, "broker_id": 1, "topic": None, "partition": -1, "level": 0}
    fenced = state | {"detail": "fenced", "broker_epoch": 4}
    write(lake, "replication_events", fenced | {"ts": at(1)}, fenced | {"ts": at(50)})
    assert [line.ts for line in timeline(Lake(lake), Filter("prod"), 10).lines] == [at(1)]
    assert timeline(Lake(lake), Filter("prod", since=at(40)), 10).lines == ()


def test_lines_past_the_limit_are_counted(lake):
    write(lake, "isr_changes", *(shrink(0, seconds, partition_epoch=seconds) for seconds in range(20)))
    found = timeline(Lake(lake), Filter("prod"), 5)
    assert (len(found.lines), found.left_out) == (5, 15)


def test_the_past_of_a_partition_has_what_was_lost(lake):
    write(lake, "partition_hw", *(advance(s, 10 * s, topic="clicks") for s in range(1, 9)))
    write(lake, "hw_regressions", loss(ts=at(5)), loss(ts=at(6), regression_id="r2", severity="warning"))
    past = partition_past(Lake(lake), Filter("prod", "clicks", 0))
    assert past.lost == [LostRange(at(5), 120, 299, True), LostRange(at(6), 120, 299, False)]
    assert partition_past(Lake(lake), Filter("prod", "none", 0)) is None


@pytest.mark.parametrize(("topic", "told"), [(None, ["clicks", "orders"]), ("orders", ["orders"])])
def test_a_topic_that_was_deleted_is_told_once(lake, topic, told):
    """By each controller, and again by one that restarts."""
    told_once = {"detail": "topic=deleted", "committed": True}
    deleted = {"topic": "orders", "topic_id": "A" * 22} | told_once
    write(lake, "replication_events", config(2, **deleted), config(3, **deleted), config(900, **deleted),
          config(1, topic="clicks", **told_once), config(1, **deleted | {"committed": False}))  # fmt: skip
    lines = timeline(Lake(lake), Filter("prod", topic), 9).lines
    assert [(line.kind, line.text) for line in lines] == [("topic", f"topic {name} was deleted") for name in told]


def test_a_reassignment_is_told_from_which_replicas_to_which(lake):
    moved = [{"since": at(n), "replicas": replicas} for n, replicas in ((1, [1, 2, 3]), (5, [1, 2, 4]), (9, [2, 1, 4]))]
    write(lake, "partition_health", *(health("orders", n, assignments=moved) for n in range(2)), health("clicks", 0))
    both = ": 2 partitions (orders-0, orders-1)"
    lines = [(5, "reassignment", f"replicas from 1, 2, 3 to 1, 2, 4{both}"),
             (9, "reassignment", f"replicas from 1, 2, 4 to 2, 1, 4{both}")]  # fmt: skip
    assert told(lake) == lines
    assert (told(lake, Filter("prod", "clicks")), told(lake, Filter("prod", since=at(6)))) == ([], lines[1:])
    assert (told(lake, broker=4), told(lake, broker=1)) == (lines[:1], [])


def begin(seconds, source, topic, **more):
    row = {"event_type": "leader", "topic": topic, "ts": at(seconds), "source_id": source, "leader_id": 1}
    return row | {"broker_id": 1, "leader_epoch": 0, "leo": 0, "hw": -1, "level": 1} | more


def test_a_topic_is_created_as_it_first_begins_and_not_as_a_watcher_finds_it(lake):
    watch, log = "watch/main/broker-1", "broker-1/x"
    progress = begin(1, watch, None) | {"event_type": "progress", "partition": -1, "detail": "first round: "}
    write(lake, "replication_events",
          begin(1, watch, "found"), progress, begin(5, watch, "orders"),
          begin(6, log, "orders"), begin(9, watch, "orders"), begin(7, watch, "elder", leader_epoch=3),
          begin(7, log, "printed"), begin(8, log, "restarted", leo=7), begin(8, log, "grown", partition=4))  # fmt: skip
    assert told(lake) == [
        (5, "topic", "topic orders was created"),
        (7, "topic", "topic printed was created"),
    ]
    assert told(lake, Filter("prod", "printed")) == told(lake)[1:]


def test_partitions_that_a_topic_gets_later_have_a_line(lake):
    begins = ((5, 0), (6, 1), (7, 2), (90, 3), (90, 4), (95, 3))
    rows = [begin(seconds, "broker-1/x", "orders", partition=n) for seconds, n in begins]
    write(lake, "replication_events", *rows, begin(99, "broker-1/x", "orders", partition=5, leader_epoch=2))
    grown = (90, "topic", "topic orders has more partitions: 2 partitions (orders-3, orders-4)")
    assert told(lake) == [(5, "topic", "topic orders was created"), grown]
    assert told(lake, Filter("prod", "clicks")) == []


def test_leaders_that_only_metadata_tell_have_lines_too(lake):
    """A watched cluster had none of its elections in the timeline, nor who was offline."""

    def seen(second, leader, epoch, watcher="main", **more):
        own = {
            "source_id": f"watch/{watcher}/broker-1",
            "detail": "metadata",
            "leader_id": leader,
            "leader_epoch": epoch,
        }
        return fetch(second, None, None, event_type="isr", **own | more)

    turns = [seen(5, 1, 0), seen(10, 1, 0), seen(20, 2, 1), seen(21, 2, 1, "second"), seen(30, -1, 2), seen(40, 3, 3)]
    logged = [seen(5, 1, 0, partition=1), seen(20, 2, 1, partition=1), begin(20, "broker-2/x", "orders", partition=1)]
    write(lake, "replication_events", *turns, *logged)
    assert [line for line in told(lake, ALL) if line[1] == "term"] == [
        (20, "term", "broker 2 began leading: orders-0"),
        (30, "term", "nobody leads: orders-0"),
        (40, "term", "broker 3 began leading: orders-0"),
    ]


def test_a_partition_that_nobody_leads_has_a_line_once_whoever_told_it(lake):
    gone = {"event_type": "election", "leader_id": -1, "leader_epoch": 5}
    told = [fetch(s, None, None, broker_id=b, **gone) for s, b in ((10, 100), (12, 101), (40, 100))]
    back = fetch(20, None, None, event_type="election", leader_id=2, leader_epoch=6)
    again = fetch(50, None, None, event_type="election", leader_id=-1, leader_epoch=7)
    write(lake, "replication_events", *told, back, again)
    for wanted in (ORDERS, ALL):
        lines = [line for line in timeline(Lake(lake), wanted, 9).lines if line.kind == "term"]
        assert [(line.ts, line.summary, line.weight) for line in lines] == [
            (at(10), "nobody leads: orders-0", "critical"),
            (at(50), "nobody leads: orders-0", "critical"),
        ]
    other = timeline(Lake(lake), Filter("prod", "clicks", 0), 9).lines
    assert [line for line in other if line.kind == "term"] == []
