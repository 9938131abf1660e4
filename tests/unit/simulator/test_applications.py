"""Loads of applications: producers with retries and a partitioner, and what a consumer finds of it all in the end."""

from collections import Counter

import pytest

from generators.simulator.clients.applications import KEYS, Delivered
from generators.simulator.clients.load import Driver, Load, parse
from generators.simulator.clients.partitioner import of_key
from generators.simulator.cluster.settings import Settings, Topic
from generators.simulator.cluster.simulation import Simulation
from generators.simulator.faults.injection import Injection
from generators.simulator.faults.script import parse as fault
from pipelines.errors import UsageError

pytestmark = pytest.mark.long


def delivered(load, *faults, seed=1, seconds=40, calm=140, partitions=3):
    """The cluster after a load under faults, and a quiet time in which every retry ends."""
    topic = Topic("orders", partitions, min_isr=2)
    simulation = Simulation(Settings(seed=seed, topics=(topic,), lag_max_ms=3_000))
    simulation.start()
    Injection(simulation, map(fault, faults))
    driver = Driver(simulation, [parse(load)], seconds, seed)
    simulation.run(seconds + calm)
    ((_, _, found),) = driver.delivered()
    return simulation, found


FAILING = ("8s kill 1 for 6s", "20s freeze 2 for 15s", "22s cut 1-3 for 3s")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("by", ["key", "round-robin", "sticky"])
def test_idempotent_producers_deliver_every_record_once_through_failures(by):
    _, found = delivered(f"steady:60,acks=all,producers=2,by={by}", *FAILING)
    assert found == Delivered(found.once, 0, 0, 0, 0, found.resent, 0)
    assert found.once == pytest.approx(40 * 60, abs=20)
    assert found.resent > 0


def test_without_idempotence_what_is_sent_again_may_be_there_twice_and_nothing_acknowledged_is_lost():
    """A leader that dies while it answers: every few ms it does."""
    faults = [f"{3 + 4 * k}s kill {1 + k % 3} for 1s" for k in range(9)]
    _, found = delivered("steady:300,acks=all,by=round-robin,idempotence=off,tick=10ms", *faults)
    assert (found.broken, found.lost, found.pending) == (0, 0, 0)
    assert found.doubled > 0


def test_with_acks_0_records_are_lost_never_doubled_and_nothing_was_promised():
    _, found = delivered("steady:60,acks=0,by=round-robin", *FAILING)
    assert found.lost > 0
    assert (found.doubled, found.broken, found.resent) == (0, 0, 0)


def test_what_is_not_answered_yet_is_under_way_not_lost():
    _, found = delivered("steady:60,acks=all,producers=1", "36s freeze 1", "36s freeze 2", "36s freeze 3", calm=0)
    assert found.lost == 0
    assert found.pending > 100


def test_a_partition_that_cannot_be_read_from_its_start_is_left_out():
    _, found = delivered("steady:60,acks=all,by=round-robin", "35s delete-records orders-1 to 5")
    assert found.skipped == 1
    assert found.lost == 0


def sizes(simulation):
    return [simulation.replica("orders", p, simulation.leader("orders", p)).log.leo for p in range(3)]


def test_keys_have_their_partitions_by_murmur2_and_hot_ones_make_a_hot_partition():
    even = sizes(delivered("steady:100,acks=1,by=key", calm=1)[0])
    share = Counter(of_key(f"key-{k}".encode(), 3) for k in range(KEYS))
    assert [n / sum(even) for n in even] == pytest.approx([share[p] / KEYS for p in range(3)], abs=0.03)
    hot = sizes(delivered("steady:100,acks=1,by=key,hot=2", calm=1)[0])
    assert hot.index(max(hot)) == of_key(b"key-0", 3)
    assert max(hot) > 0.55 * sum(hot)


def test_round_robin_is_even_and_sticky_stays_for_a_batch():
    assert max(sizes(delivered("steady:100,by=round-robin", calm=1)[0])) <= 40 * 100 // 3 + 3
    sticky, _ = delivered("steady:50,by=sticky,tick=1s", seconds=3, calm=1)
    assert sorted(sizes(sticky))[:2] == [0, 0]


@pytest.mark.parametrize(
    ("text", "load"),
    [
        ("steady:9,acks=all,producers=3", Load("steady", 9, acks=-1, producers=3, idempotent=True)),
        ("steady:9,by=key", Load("steady", 9, producers=1, by="key")),
        ("steady:9,acks=all,idempotence=off", Load("steady", 9, acks=-1, producers=1)),
    ],
)
def test_a_load_of_producers_is_read_and_with_acks_all_they_are_idempotent(text, load):
    assert parse(text) == load


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("steady:9,by=kye", "by=kye is no partitioner; did you mean key?"),
        ("steady:9,producers=0", "producers=0 cannot be; the nearest allowed is 1"),
        ("steady:9,idempotence=yes", "idempotence=yes is neither on nor off"),
        ("steady:9,idempotence=on", "idempotence=on wants acks=all"),
    ],
)
def test_producers_that_cannot_be_are_refused_by_name(text, says):
    with pytest.raises(UsageError, match=says):
        parse(text)
