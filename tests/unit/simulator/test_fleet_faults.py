"""When something goes wrong in a fleet, its partitions go through single steps and come back as if nothing had been."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from generators.simulator.clients.load import Driver, parse
from generators.simulator.cluster.settings import SECOND, START, Clock, Settings
from generators.simulator.cluster.simulation import Simulation
from generators.simulator.cluster.versions import VERSIONS
from generators.simulator.faults import script as faults
from generators.simulator.faults.injection import Injection
from generators.simulator.fleet.bootstrap import PartitionCatalog, spread
from generators.simulator.fleet.fault_scope import LEAD_TIME, fault_scopes
from generators.simulator.fleet.fleet import Fleet
from generators.simulator.fleet.partitions import NOBODY
from generators.simulator.telemetry.rows import Telemetry
from generators.simulator.truth.compare import differences
from pipelines.replication import replay

LOADS = [parse("steady:30,tick=1s")]


def settings(brokers=(1, 2, 3, 4, 5), **more):
    return Settings(brokers=brokers, topics=spread(2, 10, brokers), clocks={2: Clock(1_500_000, 30.0)}, seed=5, **more)


def fleet(lines, seconds, cluster, **how):
    return Fleet(cluster, LOADS, seconds, faults=[faults.parse(line) for line in lines], **how)


def run(made):
    """Its telemetry, and how many partitions were among single steps as each second ended."""
    tables, guests = [], []
    for part in made.parts():
        tables.append(part.copied())
        guests.append(len(made.engine_switch.stepped))
    return pa.concat_tables(tables), guests


def in_order(events):
    return events.sort_by([("source_id", "ascending"), ("source_seq", "ascending")])


def single_steps(lines, seconds, cluster):
    telemetry = Telemetry(cluster)
    simulation = Simulation(cluster, [telemetry])
    simulation.start()
    telemetry.follow(simulation)
    simulation.run(2.0)
    Driver(simulation, LOADS, seconds, 9)
    Injection(simulation, [faults.parse(line) for line in lines])
    simulation.run(seconds)
    return pa.concat_tables([telemetry.drain(), telemetry.close()])


def isr_changes(facts):
    """Who left which partition's ISR and who joined it, and why, in the last revision."""
    last = {}
    for row in sorted(facts.isr_changes.to_pylist(), key=lambda row: row["revision"]):
        place = (row["topic"], row["partition"])
        who = tuple(sorted(row["removed"] or row["added"]))
        last[place, row["partition_epoch"]] = (*place, row["change"], row["cause"], who)
    return Counter(last.values())


CASES = {
    "killed and back": (["5s kill 2 for 20s"], 45.0, {}),
    "frozen until it is fenced": (["5s freeze 3 for 30s"], 60.0, {}),
    "cut off from one leader": (["5s cut 2-3 for 30s"], 50.0, {"lag_max_ms": 10_000}),
    "all three brokers concerned": (["5s kill 1 for 15s"], 50.0, {"brokers": (1, 2, 3), "session_timeout_ms": 3_000}),
    "led by the preferred again": (["3s stop 2 for 5s"], 45.0, {"preferred_election_ms": 25_000}),
}


@pytest.mark.parametrize("case", CASES)
def test_isr_changes_are_those_of_single_steps_and_nothing_is_missing(case):
    lines, seconds, more = CASES[case]
    made = fleet(lines, seconds, settings(**more))
    events, guests = run(made)
    facts, steps = replay(events), replay(single_steps(lines, seconds, settings(**more)))
    assert isr_changes(facts) == isr_changes(steps)
    assert sum(isr_changes(facts).values()) > 0
    assert len(facts.telemetry_gaps) == len(facts.quarantine) == 0
    assert not {"unclean_loss", "committed_loss", "hw_moved_back"} & set(facts.hw_regressions["class"].to_pylist())
    assert max(guests) > 0
    assert guests[-1] == 0


def test_a_frozen_follower_is_dropped_for_its_lag_where_single_steps_drop_it():
    """What its own partitions do when it goes on depends on what waited for it; that it was dropped does not."""
    lines, cluster = ["5s freeze 3 for 20s"], settings(lag_max_ms=10_000, session_timeout_ms=60_000)
    facts = replay(run(fleet(lines, 45.0, cluster, records=(1, 1)))[0])
    steps = replay(single_steps(lines, 45.0, cluster))
    dropped = [Counter(c for c in isr_changes(f) if c[-1] == (3,)) for f in (facts, steps)]
    assert dropped[0] == dropped[1]
    assert {c[2:4] for c in dropped[0]} == {("shrink", "lag"), ("expand", "caught_up")}
    assert len(facts.telemetry_gaps) == len(facts.quarantine) == 0


@pytest.mark.parametrize("case", ["killed and back", "frozen until it is fenced", "cut off from one leader"])
def test_reported_and_reconstructed_hws_agree_up_to_the_true_ones(case):
    lines, seconds, more = CASES[case]
    made = fleet(lines, seconds, settings(**more))
    facts = replay(run(made)[0])
    assert set(facts.partition_hw["agreement"].to_pylist()) == {"exact", "unreported"}
    last = {(row["topic"], row["partition"]): row["hw"] for row in facts.partition_hw.to_pylist()}
    state, catalog = made.arrangement.state(), made.catalog
    names = [(catalog.topics[catalog.topic[n]], int(catalog.partition[n])) for n in state.number.tolist()]
    assert last == dict(zip(names, state.hw.tolist(), strict=True))
    assert min(last.values()) > 0


def test_history_with_faults_does_not_depend_on_the_size_of_parts():
    expected, guests = run(fleet(["3s kill 2 for 4s"], 20.0, settings()))
    assert max(guests) > 0
    assert in_order(run(fleet(["3s kill 2 for 4s"], 20.0, settings(), rows=200))[0]).equals(in_order(expected))


def test_a_fault_may_come_at_once_and_busy_partitions_come_back_too():
    made = Fleet(settings(), [parse("steady:2000")], 25.0, (1, 1), [faults.parse("100ms kill 3 for 10s")])
    events, guests = run(made)
    facts = replay(events)
    assert len(facts.telemetry_gaps) == len(facts.quarantine) == 0
    assert max(guests) == 12
    assert guests[-1] == 0


def test_a_clock_that_jumps_is_seen_from_that_moment_on_whatever_the_windows():
    lines = ["8s clock-jump 3 by 2500ms"]
    events = in_order(run(fleet(lines, 20.0, settings()))[0])
    assert in_order(run(fleet(lines, 20.0, settings(), window=370_000))[0]).equals(events)
    times = np.array([row["ts"].timestamp() for row in events.to_pylist() if row["broker_id"] == 3])
    gap = np.diff(times).argmax()
    assert np.diff(times)[gap] > 2.2
    assert times[gap] < START / SECOND + 8.1 < times[gap + 1]


def test_a_partition_goes_and_comes_with_all_that_is_known_of_it():
    made = fleet([], 4.0, settings())
    for part in made.parts():
        part.done()
    before = made.arrangement.state()
    at = int((before.leo * (before.taken.min(axis=1) > 0)).argmax())
    one = before.only(slice(at, at + 1))
    number = int(one.number[0])
    made.engine_switch.to_steps(one, made.arrangement.fetched()[at : at + 1], made._disks)
    place = (made.catalog.topics[made.catalog.topic[number]], int(made.catalog.partition[number]))
    leader, *followers = one.replicas[0].tolist()
    replica = made.simulation.replica(*place, leader)
    assert (replica.log.leo, replica.hw) == (int(one.leo[0]), int(one.hw[0])) != (0, 0)
    assert [made.simulation.replica(*place, f).log.leo for f in followers] == one.taken[0].tolist()
    assert [replica.leader_partition.followers[f].leo for f in followers] == one.stored[0].tolist()
    made.simulation.run(1.0)
    assert list(made.engine_switch.steady()) == [number]
    (back,) = made.engine_switch.to_rounds([number], made._disks)
    assert back.leo[0] == back.hw[0] >= one.leo[0]
    assert (back.replicas == one.replicas).all()
    assert not made.simulation.controller.partitions
    assert not any(broker.replicas for broker in made.simulation.brokers.values())
    made.simulation.run(2.0)
    assert not any(broker.replicas for broker in made.simulation.brokers.values())


def test_whatever_a_fault_can_touch_is_touched_before_it():
    catalog = PartitionCatalog(settings())
    found = fault_scopes(
        [faults.parse("7s kill 2"), faults.parse("100ms cut 1-3"), faults.parse("9s thaw 2")], catalog, 10.0
    )
    assert [(t.at, t.brokers) for t in found] == [(0, (1, 3)), (7 * SECOND - LEAD_TIME, (2,))]
    number = np.arange(len(catalog.topic))
    on_both = [{1, 3} <= set(r) - {NOBODY} for r in catalog.replicas.tolist()]
    assert found[0].covers(catalog.replicas, number, catalog.replicas[:, 0]).tolist() == on_both
    assert 0 < sum(on_both) < len(on_both)


OPERATIONS = {
    "rolling restart": (["5s rolling-restart for 3s every 8s"], 65.0, {}),
    "rolling upgrade": (["5s rolling-upgrade to 4.1 for 3s every 8s"], 65.0, {"version": VERSIONS["4.0"]}),
    "reassigned, then its new broker dies": (["5s reassign topic-0-1 to 5,2,3", "20s kill 5 for 15s"], 50.0, {}),
    "grown and shrunk": (["5s reassign topic-0-1 to 1,2,3,4", "15s reassign topic-0-1 to 4,1"], 30.0, {}),
    "deleted and created again": (
        ["5s delete-topic topic-0", "9s create-topic topic-0:4x3", "20s kill 2 for 15s"], 50.0, {},
    ),
    "a new topic": (["5s create-topic news:7x3:min-isr=2", "20s kill 2 for 15s"], 50.0, {}),
    "a topic too many, and one that is not there": (["5s create-topic topic-1:2x2", "7s delete-topic topic-0",
                                                     "9s configure topic-0 to min-isr=2"], 20.0, {}),
    "min ISR changed while a broker is away": (["3s configure topic-0 to min-isr=3", "9s kill 2 for 15s"], 40.0, {}),
    "elections without need and refused ISRs": (
        ["5s unclean-election topic-0-1", "6s refuse-isr 0.5 for 9s", "7s stop 3 for 9s"], 40.0, {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", OPERATIONS)
def test_operations_have_the_isr_changes_of_single_steps_and_nothing_is_missing(case):
    lines, seconds, more = OPERATIONS[case]
    made = fleet(lines, seconds, settings(**more), sample_every=10.0)
    events, guests = run(made)
    truth = made.truth.close()
    facts, steps = replay(events), replay(single_steps(lines, seconds, settings(**more)))
    assert isr_changes(facts) == isr_changes(steps)
    assert len(facts.telemetry_gaps) == len(facts.quarantine) == 0
    assert not {"unclean_loss", "committed_loss", "hw_moved_back"} & set(facts.hw_regressions["class"].to_pylist())
    assert set(facts.partition_hw["agreement"].to_pylist()) <= {"exact", "unreported", "race"}
    assert [line for line in differences(facts, truth) if not line.startswith("HW of")] == []
    assert truth["truth_records"]["acknowledged"].equals(truth["truth_records"]["leo"])
    assert guests[-1] == 0


def test_a_rolling_restart_takes_one_broker_at_a_time_and_only_its_partitions():
    made = fleet(["5s rolling-restart for 3s every 8s"], 65.0, settings())
    events, guests = run(made)
    reported = [(row["detail"], row["replica_id"]) for row in events.to_pylist() if row["event_type"] == "broker_state"]
    assert [broker for state, broker in reported if state == "controlled_shutdown"] == [1, 2, 3, 4, 5]
    stopped = [k for k, (state, _) in enumerate(reported) if state == "controlled_shutdown"]
    assert all(
        reported[k + 1 : k + 4] == [(s, reported[k][1]) for s in ("fenced", "started", "unfenced")] for k in stopped
    )
    assert 0 < max(guests) < len(made.catalog.topic)


def test_a_topic_that_is_created_is_written_to_and_comes_into_the_rounds():
    made = fleet(["5s create-topic news:7x3:min-isr=2"], 20.0, settings())
    events, guests = run(made)
    written = [row for row in events.to_pylist() if row["topic"] == "news" and row["event_type"] == "append"]
    assert {row["partition"] for row in written} == set(range(7))
    assert guests[-1] == 0
    assert sum(made.catalog.topic[made.arrangement.state().number] == made.catalog.topics.index("news")) == 7


def test_a_deleted_topic_has_no_more_rows_and_its_successor_continues_its_numbers():
    made = fleet(["5s delete-topic topic-0", "9s create-topic topic-0:4x3"], 20.0, settings())
    events, _ = run(made)
    old, new = (f"topic-0-------{n:08d}".replace("-------", "AAAAAAA") for n in (1, 3))
    rows = [row for row in in_order(events).to_pylist() if row["topic"] == "topic-0" and row["broker_id"] > 0]
    assert {row["topic_id"] for row in rows} == {old, new}
    gone = max(row["ts"] for row in rows if row["topic_id"] == old)
    assert gone < min(row["ts"] for row in rows if row["topic_id"] == new)
    assert {row["partition"] for row in rows if row["topic_id"] == new} == set(range(4))


def test_records_are_deleted_and_a_replica_that_lost_its_disk_begins_behind_them():
    made = fleet(["10s delete-records topic-0-1 to 20", "20s lose-disk 2 for 2s"], 40.0, settings(), records=(5, 9))
    events, guests = run(made)
    reported = [row for row in events.to_pylist() if (row["topic"], row["partition"]) == ("topic-0", 1)]
    (cut,) = [row for row in reported if row["event_type"] == "truncate" and row["replica_id"] == 2]
    assert cut["leo"] == cut["log_start"] == 20
    assert guests[-1] == 0
    assert len(replay(events).telemetry_gaps) == 0
