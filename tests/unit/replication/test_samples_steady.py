"""Sampled partitions whose offsets only change: compiled rules, kept in columns, and the facts of the plain rules."""

from random import Random

import numpy as np
import pytest

from pipelines.replication import Facts, Reconstructor, Rules
from pipelines.replication.batch.sampled_rows import SampledRows
from tests.unit.replication.bronze import events_of
from tests.unit.replication.test_rules_set_of_events import comparable, differences
from tests.unit.replication.watching import cluster, in_time

RULES = Rules(lag_max_ms=2000, reorder_grace_ms=3000)
BATCHES, BROKERS, STEP_MS = 6, (1, 2, 3, 4), 250


def batches(rows, count):
    return [events_of(rows[len(rows) * n // count : len(rows) * (n + 1) // count]) for n in range(count)]


def read(parts, restored=False):
    """(the most steady partitions at a time, facts and present after each micro-batch)"""
    machine, found, most = Reconstructor(RULES), [], 0
    for events in parts:
        if restored:
            machine = Reconstructor.restore(machine.snapshot())
        found.append((machine.update(events), machine.health()))
        most = max(most, len(machine.state.steady.numbers()))
    found.append((machine.finish(), machine.health()))
    return most, found


def test_steady_partitions_are_kept_where_no_round_was_answered_yet():
    """A round may take longer than the grace, and end in a later micro-batch."""
    one, _, _ = cluster()
    for n, ms in enumerate(range(1000, 30_000, 5000)):
        one.leads(ms, 0, 100 + n, 90)
    machine = Reconstructor(RULES)
    for row in one.rows:
        machine.update(events_of([row]))
    assert machine.state.steady
    assert not machine.state.watched
    again = Reconstructor.restore(machine.snapshot())
    assert again.health().equals(machine.health())
    assert again.state.sampled(0) == machine.state.sampled(0) is not None


@pytest.mark.parametrize("error", [float("nan"), float("inf"), -1.0, 1e300])
def test_of_a_time_that_is_off_by_nobody_knows_what_no_claim_follows(error):
    one, two, three = cluster()
    one.config(0, lag_max_ms=2000)
    one.seen(0, 1, 0).leads(1000, 0, 100, 100).leads(3000, 0, 200, 100, error=error)
    two.follows(1000, 100).follows(3000, 200)
    three.follows(1000, 100)
    for broker in (one, two, three):
        broker.round(*range(1000, 12_000, 1000))
    _, found = read(batches(in_time(one, two, three), 4))
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


@pytest.mark.parametrize("restored", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_rows_of_a_foreign_watcher_give_what_the_plain_rules_give(seed, restored, monkeypatch):
    rows = sorted(story(seed), key=lambda row: (row["ts"] // 2_000_000, row["source_id"], row["source_seq"]))
    parts = batches(rows, BATCHES * 3)
    steady, compiled = read(parts, restored)
    assert steady
    with monkeypatch.context() as patched:
        patched.setattr(SampledRows, "only_samples", property(lambda rows: np.zeros(len(rows.numbers), np.bool_)))
        _, plain = read(parts)
    for (facts, present), (plain_facts, plain_present) in zip(compiled, plain, strict=True):
        assert differences(comparable(plain_facts), comparable(facts)) == {}
        assert present.equals(plain_present)
    assert Facts.concat([facts for facts, _ in plain]).partition_hw.num_rows
