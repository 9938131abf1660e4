"""Load: how it is written, how it changes with time, and how it falls on partitions."""

from collections import Counter
from random import Random

import pytest

from generators.simulator.clients.load import Driver, Load, intensity, parse, weights
from generators.simulator.cluster.settings import SECOND, Settings, Topic
from generators.simulator.cluster.simulation import Simulation
from pipelines.errors import UsageError


@pytest.mark.parametrize(
    ("text", "load"),
    [
        ("steady:1000", Load("steady", 1000)),
        ("orders=steady:0.5,acks=all", Load("steady", 0.5, "orders", acks=-1)),
        ("bursts:5000,every=30s,length=1s", Load("bursts", 5000, every=30 * SECOND, length=SECOND)),
        ("wave:100,period=1h,low=0.2,hot=1.1", Load("wave", 100, period=3600 * SECOND, low=0.2, hot=1.1)),
    ],
)
def test_a_load_is_read(text, load):
    assert parse(text) == load


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("stedy:100", "there is no load 'stedy'; did you mean steady?"),
        ("steady", "rate is '': write a number"),
        ("steady:fast", "rate is 'fast'"),
        ("steady:-1", "rate is -1; the nearest allowed is 0"),
        ("steady:inf", "rate is inf"),
        ("steady:100,acks=2", "acks=2 cannot be; allowed are 0, 1 and all"),
        ("steady:100,hott=1", "there is no 'hott'; did you mean hot?"),
        ("bursts:100,every=0s", "every is 0s"),
        ("wave:100,low=2", "low=2.0 is above 1; the nearest allowed is 1"),
        ("bursts:100,every=10", "did you mean 10s?"),
    ],
)
def test_a_load_that_cannot_be_is_refused_by_name(text, says):
    with pytest.raises(UsageError) as error:
        parse(text)
    assert repr(text) in str(error.value)
    assert says in str(error.value)


def test_a_steady_load_is_the_same_all_the_time():
    assert {intensity(Load("steady", 1), second * SECOND) for second in range(100)} == {1.0}


def test_bursts_are_all_or_nothing():
    load = Load("bursts", 1, every=10 * SECOND, length=2 * SECOND)
    assert [intensity(load, second * SECOND) for second in (0, 1, 2, 9, 10, 11, 12)] == [1, 1, 0, 0, 1, 1, 0]


def test_a_daily_wave_rises_from_its_depth_to_its_height_and_back():
    load = Load("wave", 1, period=24 * SECOND, low=0.1)
    day = [intensity(load, hour * SECOND) for hour in range(25)]
    assert (day[0], day[12], day[24]) == (0.1, 1.0, 0.1)
    assert day[:13] == sorted(day[:13])
    assert day[12:] == sorted(day[12:], reverse=True)


def test_partitions_are_alike_unless_some_are_hot():
    assert weights(Load("steady", 1), 4, Random(1)) == [0.25] * 4
    hot = sorted(weights(Load("steady", 1, hot=1.0), 4, Random(1)), reverse=True)
    assert hot == pytest.approx([12 / 25, 6 / 25, 4 / 25, 3 / 25])


TOPICS = (Topic("orders", partitions=4), Topic("audit", partitions=1))


def driven(*loads, seed=1, seconds=30.0, topics=TOPICS):
    simulation = Simulation(Settings(topics=topics))
    simulation.start()
    driver = Driver(simulation, [parse(load) for load in loads], seconds, seed)
    simulation.run(seconds + 1)
    return simulation, driver


def sizes(simulation):
    found = Counter()
    for topic, partition in simulation.controller.partitions:
        leader = simulation.leader(topic, partition)
        found[topic, partition] += simulation.replica(topic, partition, leader).log.leo
    return found


def test_a_rate_is_so_many_records_a_second_on_each_topic():
    found = sizes(driven("steady:100")[0])
    assert sum(found[topic] for topic in found if topic[0] == "orders") == pytest.approx(3000, rel=0.02)
    assert found["audit", 0] == pytest.approx(3000, rel=0.02)


def test_a_topic_can_have_a_load_of_its_own():
    found = sizes(driven("audit=steady:100")[0])
    assert found["audit", 0] > 0
    assert sum(found[topic] for topic in found if topic[0] == "orders") == 0


def test_a_hot_partition_gets_its_share():
    found = sizes(driven("orders=steady:1000,hot=2")[0])
    shares = sorted((found["orders", p] / 30_000 for p in range(4)), reverse=True)
    assert shares == pytest.approx([144 / 205, 36 / 205, 16 / 205, 9 / 205], abs=0.01)


def test_even_the_rarest_records_come():
    assert 0 < sum(sizes(driven("orders=steady:0.5", seconds=60)[0]).values()) < 60


def test_what_was_sent_is_acknowledged_or_refused_by_name():
    simulation, driver = driven("steady:100,acks=all")
    assert driver.answers.sent == driver.answers.acknowledged == sum(sizes(simulation).values())
    assert driver.answers.refused == {}
    simulation, driver = driven("steady:100,acks=all", topics=(Topic("alone", replication_factor=1, min_isr=1),))
    assert driver.answers.refused == {}


def test_refusals_are_counted_by_the_name_of_the_error():
    simulation = Simulation(Settings(topics=(Topic("orders", min_isr=3),)))
    simulation.start()
    simulation.kill(3)
    simulation.run(20)
    driver = Driver(simulation, [parse("steady:100,acks=all")], 10, seed=1)
    simulation.run(15)
    assert driver.answers.refused == {"NOT_ENOUGH_REPLICAS": driver.answers.sent}


def test_a_topic_created_later_is_loaded_from_then_on():
    simulation = Simulation(Settings(topics=()))
    simulation.start()
    Driver(simulation, [parse("steady:100")], 20, seed=1)
    simulation.event_queue.after(10 * SECOND, simulation.create_topic, Topic("late"))
    simulation.run(25)
    assert sizes(simulation)["late", 0] == pytest.approx(1000, rel=0.1)


def test_the_same_seed_sends_the_same():
    assert sizes(driven("steady:100,hot=1", seed=5)[0]) == sizes(driven("steady:100,hot=1", seed=5)[0])
    assert sizes(driven("steady:100,hot=1", seed=5)[0]) != sizes(driven("steady:100,hot=1", seed=6)[0])
