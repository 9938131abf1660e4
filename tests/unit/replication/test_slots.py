"""A lane that comes to name more replicas than it has slots goes on where it was, with more or with some given back."""

import pytest

from pipelines.replication import Reconstructor, replay
from pipelines.replication.facts.tables import SCHEMAS, Facts
from pipelines.replication.term.layout import SLOTS
from tests.unit.replication.bronze import Source, controller, events_of, table, values_of
from tests.unit.replication.watching import cluster, in_time, rounds

pytestmark = pytest.mark.long

MANY = list(range(1, 2 * SLOTS + 2))


def bit_by_bit(events, rows=1):
    """The facts of events that come a few at a time, with a restart after each."""
    reconstructor, parts = Reconstructor(), []
    for first in range(0, len(events), rows):
        parts.append(reconstructor.update(events.slice(first, rows)))
        reconstructor = Reconstructor.restore(reconstructor.snapshot())
    return Facts.concat([*parts, reconstructor.finish()])


def assert_equal(*all_facts):
    for name in set(SCHEMAS) - {"minute_stats"}:
        one, other = (sorted(map(str, rows_of(facts, name))) for facts in all_facts)
        assert one == other, name


def rows_of(facts, name):
    """The rows of a table; of a stretch of coverage, which is written each minute as it goes on, the last one."""
    rows = facts.tables()[name].to_pylist()
    if name != "coverage":
        return rows
    return {(r["source_id"], r["kind"], r["from_ts"]): r for r in sorted(rows, key=lambda r: r["to_ts"])}.values()


def grows(partition):
    """Broker 1 leads alone; replicas come one by one, until there are more than twice the slots."""
    telemetry = Source(f"broker-1/{partition}.log").on(partition=partition)
    telemetry.leader(0, 0, 0, 0, [1], replicas=[1], partition_epoch=0).append(10, 5)
    for epoch, replica in enumerate(MANY[1:], start=1):
        ms = 100 * epoch
        isr = MANY[: epoch + 1]
        telemetry.fetch(ms, replica, 5 * epoch, 5 * epoch).proposed(ms + 1, isr, "expand")
        telemetry.isr(ms + 2, isr, epoch).append(ms + 10, 5 * (epoch + 1))
        for follower in isr[1:]:
            telemetry.fetch(ms + 20 + follower, follower, 5 * (epoch + 1), 5 * (epoch + 1))
    return telemetry


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.sampled(3)
def test_a_lane_that_runs_out_of_slots_goes_on_with_more(partitions):
    events = table(*(grows(partition) for partition in range(partitions)))
    facts = replay(events)
    held = values_of(facts.partition_hw, "hw", "holding_replicas", partition=0, kind="advance")
    assert held == [(5, [1]), *((5 * (epoch + 1), MANY[: epoch + 1]) for epoch in range(1, len(MANY)))]
    assert_equal(facts, bit_by_bit(events))


def test_a_fetch_of_a_replica_that_nobody_named_gets_a_slot():
    telemetry = Source("broker-1/replication.log").leader(0, 0, 0, 0, [1, 2, 3, 4], replicas=[1, 2, 3, 4]).append(10, 5)
    for replica in (2, 3, 4, 9):
        telemetry.fetch(20 + replica, replica, 5, 5)
    facts = replay(table(telemetry))
    assert values_of(facts.partition_hw, "ts", "hw", kind="advance") != []
    assert values_of(facts.partition_hw, "holding_replicas", kind="advance") == [[1, 2, 3, 4]]


PAIRS = [(2 * k, 2 * k + 1) for k in range(1, 60)]


def moves(told=True, every_ms=60_000):
    """A partition led by broker 1 whose two followers are replaced by two others again and again, as when its cluster
    is rebalanced for months; `told`: the rows say who is assigned. Returns (telemetry, the HWs and who is at them)."""
    telemetry, expected, end, epoch = Source(), [], 0, 0
    isr = [1, *PAIRS[0]]
    telemetry.leader(0, 0, 0, 0, isr, replicas=isr if told else None)
    for k in range(len(PAIRS)):
        ms, end = k * every_ms + 10, end + 5
        telemetry.append(ms, end)
        for replica in isr[1:]:
            telemetry.fetch(ms + replica, replica, end, end)
        expected.append((end, isr))
        if k + 1 == len(PAIRS):
            break
        both, new = sorted({*isr, *PAIRS[k + 1]}), [1, *PAIRS[k + 1]]
        for replica in PAIRS[k + 1]:
            telemetry.fetch(ms + 500 + replica, replica, end, end)
        for isr, change in ((both, "expand"), (new, "shrink")):
            epoch, ms = epoch + 1, ms + 1000
            telemetry.proposed(ms - 1, isr, change).isr(ms, isr, epoch, replicas=isr if told else None)
    return telemetry, expected


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("told", "every_ms"),
    [(True, 60_000), (True, 3000), (False, 60_000)],
    ids=["slowly", "while rows wait", "by the ISR alone"],
)
def test_replicas_that_are_not_assigned_any_more_give_their_slots(told, every_ms):
    telemetry, expected = moves(told, every_ms)
    events = table(telemetry)
    facts = replay(events)
    assert values_of(facts.partition_hw, "hw", "isr", kind="advance") == expected
    assert values_of(facts.partition_hw, "hw", "holding_replicas", kind="advance") == expected
    assert not facts.quarantine.num_rows
    assert values_of(facts.isr_changes, "isr_after")[-1] == expected[-1][1]
    for rows in (1, 7, 100):
        assert_equal(facts, bit_by_bit(events, rows))


def test_a_replica_that_was_out_of_sync_and_is_not_assigned_any_more_is_named_by_its_own_id():
    telemetry, _ = moves()
    facts = replay(table(telemetry))
    named = set(values_of(facts.replica_sync, "replica_id"))
    assert named
    assert named <= {replica for pair in PAIRS for replica in pair}


def test_an_elected_leader_that_names_new_replicas_at_every_term():
    """What later verdicts ask of a term names the replicas of its own time."""
    one, two, last = Source(), Source("broker-2/replication.log"), 0
    for k, pair in enumerate(PAIRS):
        ms, isr = k * 60_000, [1, 2, *(100 + replica for replica in pair)]
        one.leader(ms, 2 * k, last, last, isr, replicas=isr).append(ms + 10, last + 5)
        for replica in isr[1:]:
            one.fetch(ms + 20, replica, last + 5, last + 5)
        last += 5
        one.follower(ms + 30_000, 2 * k + 1, last, last, of=2)
        two.follower(ms, 2 * k, last - 5, last - 5, of=1)
        two.leader(ms + 30_000, 2 * k + 1, last, last, isr, replicas=isr)
    events = table(one, two).sort_by([("ts", "ascending"), ("source_seq", "ascending")])
    facts = replay(events)
    assert values_of(facts.partition_hw, "hw", leader_id=1, kind="advance") == [5 * (k + 1) for k in range(len(PAIRS))]
    isrs = values_of(facts.partition_hw, "isr", leader_id=1, kind="advance")
    assert isrs == [[1, 2, *(100 + replica for replica in pair)] for pair in PAIRS]
    assert set(values_of(facts.hw_regressions, "class")) == {"loss_not_excluded"}, "nobody told the lives of brokers"
    assert_equal(facts, bit_by_bit(events, 9))


def test_fetches_of_replicas_that_nobody_assigned_end_no_job():
    telemetry = Source().leader(0, 0, 0, 0, [1, 2, 3]).append(10, 5)
    for replica in range(1000, 3000):
        telemetry.fetch(20, replica, 1, 5)
    telemetry.fetch(30, 2, 5, 5).fetch(31, 3, 5, 5)
    assert values_of(replay(table(telemetry)).partition_hw, "hw", "holding_replicas", kind="advance") == [
        (5, [1, 2, 3])
    ]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("most", [31, 32, 16])
def test_isrs_that_have_no_member_in_common_end_no_job(most):
    """No cluster has such: what follows from it is unknown, and known again with the next ISR."""
    telemetry = Source().leader(0, 0, 0, 0, list(range(1, most + 1)), replicas=None).append(10, 5)
    for k in range(1, 5):
        telemetry.isr(100 * k, list(range(100 * k, 100 * k + most)), k)
    telemetry.isr(60_000, [1, 2], 9).append(60_001, 10).fetch(60_002, 2, 10, 10).append(60_003, 11)
    facts = replay(table(telemetry.fetch(60_004, 2, 11, 11)))
    assert values_of(facts.partition_hw, "hw", "isr", kind="advance")[-1] == (11, [1, 2])


def test_every_member_of_an_isr_has_a_slot_whoever_was_assigned_before():
    """The controller assigned 32 replicas, and a `leader` row names 31 others: the ISR is complete all the same."""
    assigned, isr = list(range(100, 132)), list(range(1, 32))
    told = controller().isr(0, assigned, 0, "controller", replicas=assigned, leader_id=1, leader_epoch=0)
    telemetry = Source().leader(10, 0, 0, 0, isr, replicas=None).append(20, 5)
    for replica in isr[1:]:
        telemetry.fetch(30, replica, 5, 5)
    facts = replay(table(told, telemetry))
    assert values_of(facts.partition_hw, "hw", "isr", kind="advance") == [(5, isr)]


def watched(pairs=PAIRS, every_ms=10_000):
    """The same partition as a watcher sees it: two followers that are replaced by two others again and again."""
    one, *others = cluster(1, *(replica for pair in pairs for replica in pair))
    for k, pair in enumerate(pairs):
        ms, isr, end = k * every_ms, [1, *pair], 10 * (k + 1)
        one.seen(ms, 1, 0, isr, replicas=isr, partition_epoch=2 * k)
        if k == 0:
            one.began(ms, 0, 0, isr, replicas=isr)
        one.leads(ms + 1000, 0, end, end, isr, replicas=isr)
        for other in others:
            if other.broker in pair:
                other.follows(ms + 1000, end)
                other.round(ms + 1000, ms + 2000)
    rounds(len(pairs) * every_ms, one)
    return events_of(in_time(one, *others)).sort_by([("ts", "ascending"), ("source_seq", "ascending")])


@pytest.mark.nightly
def test_sampled_replicas_that_are_not_assigned_any_more_give_their_slots():
    events = watched()
    facts = replay(events)
    expected = [(10 * (k + 1), [1, *pair]) for k, pair in enumerate(PAIRS)]
    assert values_of(facts.partition_hw, "hw", "isr", kind="advance") == expected
    for rows in (1, 50, 400):
        assert_equal(facts, bit_by_bit(events, rows))


def test_a_row_that_names_more_replicas_than_are_followed_goes_to_quarantine_and_ends_no_job():
    telemetry = Source().leader(0, 0, 0, 0, list(range(1, 41)), replicas=None).append(10, 5)
    facts = replay(table(telemetry))
    (reasons,) = facts.quarantine["reasons"].to_pylist()
    assert [reason.split(":")[0] for reason in reasons] == ["more_than_32_replicas"]
