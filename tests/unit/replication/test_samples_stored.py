"""Sampled partitions are kept between micro-batches."""

from random import Random

import pytest

from pipelines.replication import Reconstructor, Rules
from tests.unit.replication.bronze import events_of
from tests.unit.replication.test_rules_set_of_events import comparable, differences
from tests.unit.replication.watching import cluster, in_time

RULES = Rules(lag_max_ms=2000, reorder_grace_ms=3000)
BATCHES, BROKERS, STEP_MS = 6, (1, 2, 3, 4), 250


def batches(rows, count):
    return [events_of(rows[len(rows) * n // count : len(rows) * (n + 1) // count]) for n in range(count)]


def read(parts, restored=False):
    """Facts and present after each micro-batch; `restored`: each is read by one that begins with a stored state."""
    machine, found = Reconstructor(RULES), []
    for events in parts:
        if restored:
            machine = Reconstructor.restore(machine.snapshot())
        found.append((machine.update(events), machine.health()))
    return [*found, (machine.finish(), machine.health())]


def sampled_once():
    one, _, _ = cluster()
    for n, ms in enumerate(range(1000, 30_000, 5000)):
        one.leads(ms, 0, 100 + n, 90)
    machine = Reconstructor(RULES)
    for row in one.rows:
        machine.update(events_of([row]))
    return machine


def test_what_was_sampled_is_kept_where_no_round_was_answered_yet():
    """A round may take longer than the grace, and end in a later micro-batch: the last sample waits for its moment."""
    machine = sampled_once()
    assert not machine.state.watched
    again = Reconstructor.restore(machine.snapshot())
    assert again.health().equals(machine.health())
    asked = 0, 1, 0, None, 10**18
    assert again.state.sampled.epoch(*asked) == machine.state.sampled.epoch(*asked)
    assert machine.state.sampled.epoch(*asked)[:3] == (90, 104, frozenset())


@pytest.mark.parametrize("error", [float("nan"), float("inf"), -1.0, 1e300])
def test_of_a_time_that_is_off_by_nobody_knows_what_no_claim_follows(error):
    one, two, three = cluster()
    one.config(0, lag_max_ms=2000)
    one.seen(0, 1, 0).leads(1000, 0, 100, 100).leads(3000, 0, 200, 100, error=error)
    two.follows(1000, 100).follows(3000, 200)
    three.follows(1000, 100)
    for broker in (one, two, three):
        broker.round(*range(1000, 12_000, 1000))
    found = read(batches(in_time(one, two, three), 4))
    assert sum(facts.replica_sync.num_rows for facts, _ in found) == 0


def story(seed):
    """Rows that a foreign watcher might write: values null, several of a partition at once, times that go back."""
    random = Random(seed)
    brokers = cluster(*BROKERS)
    brokers[0].config(0, lag_max_ms=2000)
    leos, leader, epoch, isr = {}, {}, {}, {}
    for ms in range(1000, 30_000, STEP_MS):
        partition = random.randrange(3)
        for broker in brokers:
            broker.on(partition=partition, topic_id=random.choice(["first-id"] * 60 + [None] * 4 + ["second-id"]))
        of = leader.setdefault(partition, random.choice(BROKERS))
        leo = leos[partition] = leos.get(partition, 100) + random.choice([0, 1, 5, 20, 20, 20, -3])
        if random.random() < 0.05:
            of = leader[partition] = random.choice(BROKERS)
            epoch[partition] = epoch.get(partition, 0) + 1
        if random.random() < 0.05:
            isr[partition] = random.sample(BROKERS, random.randint(1, 4))
        now = epoch.get(partition, 0)
        known = random.choice([isr.get(partition, [1, 2, 3]), None])
        hw = random.choice([None, leo, leo - 5, leo - 30])
        for n, broker in enumerate(brokers):
            at = ms + random.choice([0, 0, n, -2 * STEP_MS])
            error = random.choice([0.0, 1.0, 400.0, None])
            if broker.broker == of:
                named = {"replicas": random.choice([list(BROKERS), None])}
                broker.leads(at, random.choice([now] * 9 + [None]), leo, hw, known, error, **named)
            elif random.random() < 0.7:
                log_epoch = random.choice([now, 0])
                broker.follows(at, random.choice([leo, leo, leo - 10, -1]), log_epoch, error)
            if random.random() < 0.01:
                broker.unanswered(at)
            if random.random() < 0.3:
                broker.round(at)
    return in_time(*brokers)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(12))
def test_rows_of_a_foreign_watcher_give_the_same_from_stored_states(seed):
    rows = sorted(story(seed), key=lambda row: (row["ts"] // 2_000_000, row["source_id"], row["source_seq"]))
    parts = batches(rows, BATCHES * 3)
    for (facts, present), (again, then) in zip(read(parts), read(parts, restored=True), strict=True):
        assert differences(comparable(facts), comparable(again)) == {}
        assert present.equals(then)


def test_a_state_of_before_in_which_a_watcher_reported_is_refused_and_says_what_to_do():
    machine = sampled_once()
    blob = machine.snapshot()
    earlier = blob.replace(b"\x07sampled", b"\x06steady")
    with pytest.raises(ValueError, match="--rebuild"):
        Reconstructor.restore(earlier)
