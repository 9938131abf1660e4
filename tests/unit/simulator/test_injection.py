"""Faults done to a running cluster: each when its time has come, and ended after its `for`."""

import pytest

from generators.simulator.cluster.settings import SECOND, Settings, Topic
from generators.simulator.cluster.simulation import Simulation
from generators.simulator.faults.chance import DRAWS, drawn
from generators.simulator.faults.forms import FORMS
from generators.simulator.faults.injection import Injection
from generators.simulator.faults.script import SHAPES, checked, parse


class Events:
    def __init__(self):
        self.all = []

    def observe(self, event):
        self.all.append(event)

    def kinds(self, kind, **values):
        return [h for h in self.all if h.kind == kind and all(getattr(h, k) == v for k, v in values.items())]


ORDERS = (Topic("orders", partitions=3),)


def running(*lines, topics=ORDERS, **settings):
    seen = Events()
    simulation = Simulation(Settings(topics=topics, **settings), [seen])
    simulation.start()
    injection = Injection(simulation, checked([parse(line) for line in lines], simulation.settings))
    return simulation, injection, seen


def test_a_fault_begins_at_its_time_and_ends_after_its_span():
    simulation, injection, _ = running("12s freeze 3 for 20s")
    for seconds, frozen in ((11.9, False), (0.2, True), (19.8, True), (0.2, False)):
        simulation.run(seconds)
        assert simulation.brokers[3].frozen is frozen
    assert [(done.fault.written(), done.skipped) for done in injection.done] == [("12s freeze 3 for 20s", None)]


@pytest.mark.parametrize("do", ["kill", "power-off", "stop", "lose-disk"])
def test_a_broker_that_goes_down_for_a_while_is_started_again(do):
    simulation, _, _ = running(f"1s {do} 2 for 5s")
    simulation.run(3)
    assert not simulation.brokers[2].running
    simulation.run(30)
    assert simulation.brokers[2].running
    assert all(set(simulation.registration("orders", p).isr) == {1, 2, 3} for p in range(3))


def test_a_lost_disk_starts_empty():
    simulation, _, _ = running("10s lose-disk 2")
    simulation.produce("orders", 0, 50)
    simulation.run(9)
    assert simulation.replica("orders", 0, 2).log.leo == 50
    simulation.run(2)
    assert simulation.brokers[2].replicas == {}


def test_a_cut_link_passes_nothing_until_it_is_healed():
    simulation, _, _ = running("1s cut 1-2 for 5s")
    simulation.run(2)
    assert not simulation.network.reaches(1, 2)
    simulation.run(5)
    assert simulation.network.reaches(1, 2)


def test_a_throttle_and_refusals_end_as_they_were():
    simulation, _, _ = running("1s throttle 2 to 1 for 5s", "1s refuse-isr 1 for 5s", alter_partition_errors=0.25)
    simulation.run(2)
    assert (simulation.brokers[2].throttle, simulation.controller.refusals) == (1, 1.0)
    simulation.run(5)
    assert (simulation.brokers[2].throttle, simulation.controller.refusals) == (None, 0.25)


def test_what_cannot_be_done_then_is_skipped_with_a_reason():
    simulation, injection, _ = running(
        "1s kill 2", "2s kill 2", "3s freeze 2", "4s restart 1", "5s thaw 1", "5s delete-topic orders",
        "6s configure orders to min-isr=2", "7s create-topic orders", "8s create-topic orders",
    )  # fmt: skip
    simulation.run(10)
    assert [done.skipped for done in injection.done] == [
        None,
        "broker 2 is down then",
        "broker 2 is down then",
        "broker 1 is up then",
        "broker 1 is not frozen then",
        None,
        "there is no topic orders then",
        None,
        "there is a topic orders then",
    ]


def test_operations_reach_the_cluster():
    simulation, _, _ = running(
        "1s configure orders to min-isr=2,unclean=on", "2s reassign orders-0 to 3,2,1", "2s clock-jump 3 by -5s",
        "3s create-topic new:2x3",
    )  # fmt: skip
    simulation.run(20)
    known = simulation.registration("orders", 0)
    assert (known.min_isr, known.unclean, known.replicas) == (2, True, (3, 2, 1))
    assert simulation.brokers[3].clock.us == simulation.event_queue.now - 5 * SECOND
    assert set(simulation.registration("new", 1).isr) == {1, 2, 3}


def test_records_are_deleted_up_to_the_offset():
    simulation, _, _ = running("5s delete-records orders-0 to 20")
    simulation.produce("orders", 0, 50)
    simulation.run(10)
    assert simulation.replica("orders", 0, simulation.leader("orders", 0)).log.start == 20


def test_preferred_replicas_lead_again_when_asked():
    simulation, _, _ = running("1s stop 1 for 2s", "20s elect-preferred")
    simulation.run(19)
    assert simulation.leader("orders", 0) == 2
    simulation.run(5)
    assert simulation.leader("orders", 0) == 1


def test_an_unclean_election_brings_a_partition_back_from_offline():
    one = Topic("orders", assignment=((1, 2),), replication_factor=2)
    simulation, _, _ = running(
        "1s kill 2", "20s kill 1", "40s restart 2", "60s unclean-election orders-0", topics=(one,)
    )
    simulation.run(59)
    assert simulation.leader("orders", 0) is None
    simulation.run(2)
    assert simulation.leader("orders", 0) == 2


def test_a_rolling_restart_takes_one_broker_at_a_time_and_waits_for_whole_isrs():
    simulation, _, seen = running("1s rolling-restart for 5s every 6s")
    down = set()
    for _ in range(900):
        simulation.run(0.1)
        down.add(tuple(b for b in simulation.brokers if not simulation.brokers[b].running))
    assert down == {(), (1,), (2,), (3,)}
    stopped = seen.kinds("broker_state", detail="controlled_shutdown")
    assert [h.replica for h in stopped] == [1, 2, 3]
    assert all(set(p.isr) == {1, 2, 3} for p in simulation.controller.partitions.values())


def test_a_rolling_upgrade_brings_every_broker_to_the_version():
    simulation, _, _ = running("1s rolling-upgrade to 4.1", topics=(Topic("orders"),))
    simulation.run(2)
    assert not simulation.brokers[1].running
    simulation.run(100)
    assert {broker.version.name for broker in simulation.brokers.values()} == {"4.1"}


def test_a_rolling_restart_does_not_go_on_while_a_broker_is_missing():
    simulation, _, seen = running("1s kill 3", "15s rolling-restart")
    simulation.run(100)
    assert seen.kinds("broker_state", detail="controlled_shutdown") == []


@pytest.mark.parametrize("do", SHAPES)
def test_every_kind_of_fault_can_be_done(do):
    shape = SHAPES[do]
    given = {"spec": "new:2x2", "offset": "0"}
    example = lambda form: given.get(form, FORMS[form].example)  # noqa: E731
    on = [example(shape.on)] if shape.on else []
    words = [part for word, form in shape.options.items() for part in (word, example(form).replace("2,3,4", "2,3,1"))]
    simulation, injection, _ = running(" ".join(["1s", do, *on, *words]), controllers=(3000, 3001, 3002))
    simulation.run(60)
    assert len(injection.done) == 1


CONTROLLERS = ((3000,), (3000, 3001, 3002), (1, 2, 3))


def everything(seed):
    settings = Settings(seed=seed, topics=(Topic("orders", partitions=2),), controllers=CONTROLLERS[seed % 3])
    simulation = Simulation(settings)
    simulation.start()
    script = drawn(simulation.settings, dict.fromkeys(DRAWS, 3.0), 60, seed)
    injection = Injection(simulation, script)
    simulation.run(120)
    return script, injection


@pytest.mark.parametrize("seed", range(10))
def test_whatever_chance_draws_can_be_done(seed):
    script, injection = everything(seed)
    assert [done.fault for done in injection.done] == script
