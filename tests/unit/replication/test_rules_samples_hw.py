"""HWs from samples (docs/kafka-rules.md): a HW that was sampled is reached by then, and no more is said."""

from random import Random

import pyarrow as pa
import pytest

from pipelines.replication import Facts, Reconstructor, Rules, replay
from pipelines.replication.events.sharding import assign
from pipelines.replication.telemetry.coverage import coverage
from tests.unit.replication.bronze import Source, controller, events_of, values_of
from tests.unit.replication.watching import Watched, cluster, each_partition, in_time, rounds


def facts_of(*watched: Source, rules: Rules | None = None) -> Facts:
    return replay(events_of(in_time(*watched)), rules)


def present(*watched: Source, rules: Rules | None = None) -> dict:
    one = Reconstructor(rules)
    one.update(events_of(in_time(*watched)))
    one.finish()
    (row,) = one.health().to_pylist()
    return row


def caught_up() -> list[Watched]:
    """Three brokers, the first of which leads, each at 100 at 1 s and at 150 at 3 s; rounds until 6 s."""
    one, two, three = cluster()
    one.seen(0, 1, 0).began(900, 0, 40).leads(1000, 0, 100, 90).leads(3000, 0, 150, 150)
    for other in (two, three):
        other.follows(1000, 100).follows(3000, 150)
    rounds(6000, one, two, three)
    return [one, two, three]


def test_a_sampled_hw_is_reached_by_the_time_of_the_sample():
    facts = facts_of(*caught_up())
    columns = ("ms", "kind", "hw", "reported_hw", "leader_leo", "agreement", "level", "leader_id", "leader_epoch")
    assert values_of(facts.partition_hw, *columns) == [
        (1000, "advance", 90, 90, 100, "only_witness", 1, 1, 0),
        (3000, "advance", 150, 150, 150, "only_witness", 1, 1, 0),
    ]


def test_a_term_of_which_nobody_says_the_first_hw_has_none():
    """The watcher's `leader` rows carry -1: neither a HW, nor one that was lost, nor one to report as lowered."""
    facts = facts_of(*caught_up())
    assert -1 not in facts.partition_hw["hw"].to_pylist()
    assert len(facts.hw_regressions) == 0


@pytest.mark.parametrize("isr", [[-1], []])
def test_a_row_in_quarantine_says_only_that_an_answer_is_missing(isr):
    """It began the term that it names, with an ISR of nobody."""
    told, missing = caught_up(), caught_up()
    told[0].seen(4000, 2, 1, isr=isr)
    missing[0].unanswered(4000)
    told, missing = (facts_of(*watched).tables() for watched in (told, missing))
    assert len(told.pop("quarantine")) == 1
    assert not len(missing.pop("quarantine"))
    assert told == missing


def test_the_same_answer_is_no_row_and_an_unknown_hw_is_none():
    one, two, three = caught_up()
    one.leads(4000, 0, 160, None).leads(5000, 0, 170, 150)
    assert values_of(facts_of(one, two, three).partition_hw, "hw") == [90, 150]


def test_a_hw_below_an_earlier_one_of_the_term_disagrees():
    one, two, three = caught_up()
    one.leads(4000, 0, 150, 120)
    columns = ("ms", "hw", "reported_hw", "agreement")
    assert values_of(facts_of(one, two, three).partition_hw, *columns, kind="report") == [(4000, 150, 120, "disagree")]


def test_health_has_what_samples_show():
    row = present(*caught_up())
    shown = {"leader_id": 1, "leader_epoch": 0, "hw": 150, "leader_leo": 150, "isr": [1, 2, 3], "ar": [1, 2, 3]}
    shown |= {"osr": [], "out_of_sync": [], "lag_records": 0, "level": 1, "offline": False, "under_min_isr": False}
    assert {name: row[name] for name in shown} == shown


def test_who_holds_the_hw_back_is_who_alone_was_not_seen_to_fetch_above_it():
    one, two, three = caught_up()
    one.leads(4000, 0, 300, 150)
    two.follows(3200, 200).follows(3800, 300)
    row = present(one, two, three)
    assert (row["holding_replicas"], row["lag_records"], row["stalled_ms"]) == ([3], 150, 1998)


def test_a_replica_that_was_not_answered_holds_what_is_claimed_until_it_is_answered_again():
    one, two, three = caught_up()
    three.unanswered(4000)
    assert (present(one, two, three)["lag_records"], present(one, two, three)["out_of_sync"]) == (None, None)
    three.follows(5000, 150)
    assert (present(one, two, three)["lag_records"], present(one, two, three)["out_of_sync"]) == (0, [])


def test_a_leader_that_was_not_answered_has_no_known_log_end():
    one, two, three = caught_up()
    one.unanswered(4000)
    row = present(one, two, three)
    assert (row["hw"], row["leader_leo"], row["lag_records"], row["out_of_sync"]) == (150, None, None, None)


def test_the_leo_of_a_broker_that_has_stopped_to_answer_is_not_known():
    one, two, three = caught_up()
    rounds(30_000, one, two, since=7000)
    assert present(one, two, three)["out_of_sync"] is None
    rounds(30_000, three, since=7000)
    assert present(one, two, three)["out_of_sync"] == []


def test_under_min_isr_is_a_row_and_ends_with_one():
    one, two, three = caught_up()
    two.config(0, "clicks", min_isr=2)
    one.leads(4000, 0, 150, 150, isr=[1]).leads(5000, 0, 150, 150, isr=[1, 2])
    rows = values_of(facts_of(one, two, three).partition_hw, "ms", "kind", "isr", "frozen")
    assert rows[2:] == [(4000, "freeze", [1], True), (5000, "thaw", [1, 2], False)]


def test_a_partition_without_a_leader_is_offline():
    one, two, three = caught_up()
    two.seen(4000, -1, 1, isr=[1])
    row = present(one, two, three)
    assert (row["offline"], row["leader_id"], row["isr"]) == (True, -1, [1])


def test_a_new_leader_is_the_present_one_and_its_term_has_its_own_hw():
    one, two, three = caught_up()
    three.seen(4000, 2, 1, isr=[2, 3])
    two.began(4100, 1, 150, isr=[2, 3]).leads(4100, 1, 160, 155, isr=[2, 3])
    facts = facts_of(one, two, three)
    assert values_of(facts.partition_hw, "hw", "leader_id", "leader_epoch")[2:] == [(155, 2, 1)]
    row = present(one, two, three)
    assert (row["leader_id"], row["leader_epoch"], row["hw"], row["isr"]) == (2, 1, 155, [2, 3])


def test_a_topic_created_again_begins_anew():
    one, two, three = caught_up()
    for other in (one, two, three):
        other.on(topic_id="second-id")
    one.seen(4000, 1, 0).began(4100, 0, 0).leads(4100, 0, 10, 10)
    assert values_of(facts_of(one, two, three).partition_hw, "hw")[2:] == [10]
    assert present(one, two, three)["hw"] == 10


def test_a_topic_that_is_gone_is_no_longer_present_until_it_is_seen_again():
    one, two, three = caught_up()
    for other in (one, two, three):
        other.unanswered(8000, "the topic is no longer in the cluster's metadata: deleted").round(9000)
    machine = Reconstructor()
    machine.update(events_of(in_time(one, two, three)))
    machine.finish()
    assert (len(machine.health()), len(machine.present().partition_health)) == (0, 0)
    one.seen(10_000, 1, 0).leads(10_000, 0, 150, 150)
    assert present(one, two, three)["hw"] == 150


def test_a_watcher_that_starts_again_begins_no_term():
    one, two, three = caught_up()
    again = Watched(1, 1).seen(8000, 1, 0).began(8100, 0, 40).leads(8100, 0, 150, 150)
    facts = facts_of(one, two, three, again.round(9000))
    assert values_of(facts.partition_hw, "hw") == [90, 150]
    assert len(facts.hw_regressions) == 0


def test_the_watchers_clock_says_nothing_of_brokers_clocks():
    """A watcher a minute behind the controller, and partition epochs that a later one might write."""
    one = Watched(1).seen(0, 1, 0, partition_epoch=5)
    recorded = controller().election(50_000, 1, 0, partition_epoch=5, isr=[1, 2, 3]).progress(51_000)
    facts = facts_of(one.round(1000), recorded)
    assert values_of(facts.telemetry_gaps, "kind", kind="clock", series="partition") == []


def shuffled(rows: list[dict], cuts: int, late_us: int = 0) -> Facts:
    """The same rows as they would arrive, some up to `late_us` late, in `cuts` micro-batches, through a snapshot after
    each."""
    random = Random(cuts)
    delay = {row["source_id"]: random.randint(0, late_us) for row in rows}
    arriving = sorted(rows, key=lambda row: row["ts"] + delay[row["source_id"]])
    one, parts = Reconstructor(), []
    for k in range(cuts):
        batch = arriving[len(arriving) * k // cuts : len(arriving) * (k + 1) // cuts]
        parts.append(one.update(events_of(batch)))
        one = Reconstructor.restore(one.snapshot())
    return Facts.concat([*parts, one.finish()])


def story() -> list[dict]:
    """A lag, an election with a loss, and a new leader, with rounds until all is final."""
    one, two, three = caught_up()
    one.config(0, lag_max_ms=2000).leads(4000, 0, 400, 150)
    three.follows(4000, 400).seen(9000, 2, 1, isr=[2])
    two.began(9100, 1, 140, isr=[2]).leads(9100, 1, 160, 155, isr=[2]).seen(12_000, 2, 1, isr=[2, 3])
    three.follows(11_000, 160, log_epoch=1)
    rounds(70_000, one, two, three, since=7000)
    return in_time(one, two, three)


NAMES = ("partition_hw", "replica_sync", "isr_changes", "hw_regressions", "telemetry_gaps")


def differing(some: Facts, others: Facts) -> list[str]:
    """The tables that do not have the same rows."""
    return [
        name
        for name in NAMES
        if sorted(map(str, getattr(some, name).to_pylist())) != sorted(map(str, getattr(others, name).to_pylist()))
    ]


@pytest.mark.parametrize("late_us", [0, 4_000_000])
@pytest.mark.parametrize("cuts", [1, 3, 11, 29])
def test_facts_do_not_depend_on_how_rows_were_cut_or_who_came_first(cuts, late_us):
    whole = replay(events_of(story()))
    assert [len(getattr(whole, name)) > 0 for name in NAMES[:4]] == [True] * 4
    assert differing(whole, shuffled(story(), cuts, late_us)) == []


def test_facts_do_not_depend_on_the_number_of_buckets():
    """A bucket without the partitions of a source reads its rounds all the same."""
    one, two, three = cluster()
    one.config(0, lag_max_ms=2000)
    for _ in each_partition(8, one, two, three):
        one.seen(0, 1, 0).leads(1000, 0, 100, 90).leads(4000, 0, 400, 150)
        two.follows(1000, 100).follows(4000, 400)
        three.follows(1000, 100)
    rounds(20_000, one, two, three)
    events = events_of(in_time(one, two, three))
    bucket, covered = assign(events, 4), coverage(events)
    parts = []
    for number in range(4):
        shard = Reconstructor(bucket=number, buckets=4)
        of_shard = events.filter(pa.array((bucket == number) | (bucket < 0)))
        parts += [shard.update(of_shard, covered), shard.finish()]
    whole = replay(events)
    assert len(whole.replica_sync) == 8
    assert differing(whole, Facts.concat(parts)) == []


def test_facts_wait_for_the_rounds_of_all_brokers():
    one, two, three = (Watched(broker).round(-20_000) for broker in (1, 2, 3))
    one.seen(0, 1, 0).leads(1000, 0, 100, 90).round(1100)
    two.follows(1000, 100).round(1100)
    three.round(-10_000)
    machine = Reconstructor()
    assert len(machine.update(events_of(in_time(one, two, three))).partition_hw) == 0
    more = in_time(three.follows(1000, 100).round(1200))[-2:]
    assert machine.update(events_of(more)).partition_hw["hw"].to_pylist() == [90]


def test_a_lake_without_a_watcher_keeps_a_state_without_samples():
    plain = Reconstructor()
    plain.update(events_of(Source().leader(0, 0, 0, 0, [1, 2]).rows))
    assert b"watched" not in plain.snapshot()
    assert isinstance(plain.health(), pa.Table)
