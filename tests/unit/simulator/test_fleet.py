"""The fleet obeys the rules of single steps: its telemetry is reconstructed to the very state it has."""

import random
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from generators.simulator.clients.load import Driver, parse
from generators.simulator.cluster import rules
from generators.simulator.cluster.replica import Follower
from generators.simulator.cluster.settings import SECOND, START, Clock, Settings, Topic
from generators.simulator.cluster.simulation import Simulation
from generators.simulator.fleet import compiled, counter_rng, leader
from generators.simulator.fleet.bootstrap import spread
from generators.simulator.fleet.fleet import Fleet
from generators.simulator.fleet.writer import Writer
from generators.simulator.telemetry.rows import Telemetry
from pipelines.lake.bronze import read_events
from pipelines.replication import replay
from pipelines.replication.term import machine
from schemas import replication_events

BROKERS = (1, 2, 3, 5)
SETTINGS = Settings(
    brokers=BROKERS,
    topics=(*spread(2, 6, BROKERS), Topic("alone", 2, 1), Topic("quiet", 3)),
    clocks={2: Clock(1_500_000, 30.0), 3: Clock(-700_000)},
    seed=5,
)
LOADS = ("topic-0=steady:200", "topic-1=bursts:2000,every=4s,length=1s,hot=1.1", "alone=steady:20")
BUSY = 20.0


def fleet(settings=SETTINGS, loads=LOADS, seconds=BUSY, **how):
    return Fleet(settings, [parse(load) for load in loads], seconds, **how)


def reported(made):
    return pa.concat_tables([part.copied() for part in made.parts()])


def in_order(events):
    order = [(name, "ascending") for name in ("source_id", "source_seq")]
    return events.take(pc.sort_indices(events, order))


@cache
def busy():
    made = fleet()
    events = reported(made)
    return made, events, replay(events)


def test_replay_agrees_with_every_hw_and_misses_nothing():
    _, events, facts = busy()
    assert pc.sum(pc.equal(events["event_type"], "hw")).as_py() > 500
    assert set(facts.partition_hw["agreement"].to_pylist()) == {"exact", "unreported"}
    assert set(facts.partition_hw["kind"].to_pylist()) == {"term_start", "advance"}
    for nothing in (
        facts.telemetry_gaps,
        facts.quarantine,
        facts.isr_changes,
        facts.hw_regressions,
        facts.replica_sync,
    ):
        assert len(nothing) == 0


def test_the_last_reconstructed_hw_is_the_true_one_of_every_partition():
    made, _, facts = busy()
    last = {(r["topic"], r["partition"]): r["hw"] for r in facts.partition_hw.to_pylist()}
    state, catalog = made.arrangement.state(), made.catalog
    true = {
        (catalog.topics[catalog.topic[n]], int(catalog.partition[n])): hw
        for n, hw in zip(state.number.tolist(), state.hw.tolist(), strict=True)
    }
    assert last == true
    assert sum(hw > 0 for hw in true.values()) == 14


def test_the_hw_is_the_least_leo_of_all_replicas():
    made, _, _ = busy()
    state = made.arrangement.state()
    there = state.replicas[:, 1:] >= 0
    stored = np.where(there, state.stored, state.leo[:, None])
    assert (state.hw == np.minimum(state.leo, stored.min(axis=1))).all()
    assert (state.stored <= state.taken).all()
    assert (np.where(there, state.taken, 0) <= state.leo[:, None]).all()


def test_every_row_follows_from_those_before_by_the_rules_of_single_steps():
    _, events, _ = busy()
    leo, followers, hw, moved = {}, {}, {}, 0
    for row in in_order(events).to_pylist():
        at = (row["topic"], row["partition"])
        if row["event_type"] == "leader":
            leo[at], hw[at] = 0, 0
            followers[at] = {r: Follower(r) for r in row["replicas"] if r != row["broker_id"]}
        elif row["event_type"] == "append":
            assert row["leader_leo"] > leo[at]
            leo[at] = row["leader_leo"]
        elif row["event_type"] == "fetch":
            now = int(row["ts"].timestamp() * 1000)
            assert row["leader_leo"] == leo[at]
            followers[at][row["replica_id"]].fetches(row["leo"], leo[at], now, None)
        elif row["event_type"] == "hw":
            shortest = min((f.leo for f in followers[at].values()), default=leo[at])
            assert row["hw"] == rules.high_watermark(hw[at], leo[at], shortest) > hw[at]
            hw[at] = row["hw"]
            moved += 1
    assert moved > 500


def test_numbers_have_no_holes_within_source_and_partition():
    _, events, _ = busy()
    for keys, number in ((["source_id"], "source_seq"), (["source_id", "topic", "partition"], "seq")):
        groups = events.group_by(keys).aggregate(
            [(number, "count_distinct"), (number, "min"), (number, "max"), (number, "count")]
        )
        for group in groups.to_pylist():
            assert group[f"{number}_min"] == 0
            assert group[f"{number}_max"] + 1 == group[f"{number}_count"] == group[f"{number}_count_distinct"]


def test_times_rise_within_a_source():
    _, events, _ = busy()
    rows = in_order(events.filter(pc.not_equal(events["event_type"], "broker_state")))
    same = np.diff(rows["source_id"].combine_chunks().dictionary_encode().indices.to_numpy()) == 0
    assert (np.diff(rows["ts"].cast(pa.int64()).to_numpy())[same] >= 0).all()


@pytest.mark.parametrize("how", [{"rows": 200}, {"window": 37_123}, {"window": 7_000_000}], ids=str)
def test_history_depends_neither_on_windows_nor_on_the_size_of_parts(how):
    again = reported(fleet(**how))
    assert in_order(again).equals(in_order(busy()[1]))


def test_another_seed_is_another_history():
    other = reported(fleet(settings=Settings(brokers=BROKERS, topics=SETTINGS.topics, seed=6)))
    assert not in_order(other).equals(in_order(busy()[1]))


def test_a_quiet_partition_has_rows_so_often_that_an_append_finds_it_caught_up():
    """Else a follower whose last row is 60 s old would seem out of sync until its next one."""
    settings = Settings(brokers=(1, 2, 3), topics=(Topic("rare", 4),), seed=3)
    events = reported(fleet(settings, ("rare=bursts:400,every=60s,length=200ms",), 130.0))
    facts = replay(events)
    assert pc.sum(pc.equal(events["event_type"], "append")).as_py() > 10
    assert facts.replica_sync.to_pylist() == []
    assert events.filter(pc.equal(events["event_type"], "fetch")).num_rows < 400


def test_quiet_partitions_cost_no_more_rows_than_telling_that_they_are_caught_up():
    settings = Settings(brokers=(1, 2, 3), topics=(Topic("quiet", 100),))
    events = reported(fleet(settings, (), 35.0))
    fetches = events.filter(pc.equal(events["event_type"], "fetch"))
    assert 100 * 2 * 3 <= len(fetches) <= 100 * 2 * 4
    assert set(fetches["leo"].to_pylist()) == {0}


def latencies(events):
    """From an append to the HW that covers it, in milliseconds, on the leader's clock, after the first 2 s."""
    events = events.filter(pc.greater(events["ts"], pa.scalar(START + 2 * SECOND, events["ts"].type)))
    waiting, found = {}, []
    for row in in_order(events).to_pylist():
        at = (row["topic"], row["partition"])
        if row["event_type"] == "append":
            waiting.setdefault(at, []).append((row["leader_leo"], row["ts"]))
        elif row["event_type"] == "hw" and row["replica_id"] == row["leader_id"]:
            done = [(leo, ts) for leo, ts in waiting.get(at, []) if leo <= row["hw"]]
            waiting[at] = waiting.get(at, [])[len(done) :]
            found += [(row["ts"] - ts).total_seconds() * 1000 for _, ts in done]
    return np.array(found)


def test_an_append_takes_as_long_to_be_committed_as_in_single_steps():
    settings = Settings(brokers=(1, 2, 3), topics=spread(1, 6, (1, 2, 3)), seed=9)
    rounds_ = latencies(reported(fleet(settings, ("topic-0=steady:120",), 20.0, records=(2, 2))))
    telemetry = Telemetry(settings)
    simulation = Simulation(settings, [telemetry])
    simulation.start()
    Driver(simulation, [parse("topic-0=steady:120")], 20.0, 9)
    simulation.run(21.0)
    steps = latencies(telemetry.drain())
    assert len(rounds_) > 900
    assert len(steps) > 900
    assert rounds_.mean() == pytest.approx(steps.mean(), rel=0.15)
    for share in (0.1, 0.5, 0.9):
        assert np.quantile(rounds_, share) == pytest.approx(np.quantile(steps, share), abs=1.01)


def test_parts_land_in_the_lake_once(tmp_path):
    lake = str(tmp_path)
    rows = Writer(lake, "simulate").write(fleet(rows=4096).parts())
    assert rows == len(busy()[1])
    assert Writer(lake, "simulate").write(fleet(rows=4096).parts()) == 0
    assert in_order(read_events(lake)).equals(in_order(busy()[1]))
    assert read_events(lake).schema.equals(replication_events.ARROW)


def test_what_the_writer_meets_is_raised(tmp_path):
    writer = Writer(str(tmp_path), "simulate")
    (tmp_path / "bronze" / "replication_events").rename(tmp_path / "gone")
    with pytest.raises(OSError, match="replication_events"):
        writer.write(fleet(seconds=1.0).parts())


def test_compiled_rules_are_the_rules():
    drawn = random.Random(1)
    for _ in range(300):
        a, b, c, d, e, f = (drawn.randrange(-1, 6) for _ in range(6))
        assert leader.high_watermark(a, b, c) == rules.high_watermark(a, b, c)
        assert leader.may_advance(a, b, c, d > 2) == rules.may_advance(a, b, c, d > 2)
        assert leader.last_caught_up(a, b, c, d, e, f) == rules.last_caught_up(a, b, c, d, e, f)


def test_kernels_are_kept_under_a_digest_of_the_rules_and_of_themselves_and_of_nothing_else(tmp_path):
    assert {Path(rules.__file__), Path(leader.__file__), Path(counter_rng.__file__)} <= set(compiled.SOURCES)
    copies = [tmp_path / source.name for source in compiled.SOURCES]
    for source, copy in zip(compiled.SOURCES, copies, strict=True):
        copy.write_bytes(source.read_bytes())
    assert compiled.digest(copies) == compiled.digest(compiled.SOURCES)
    copies[0].write_text(copies[0].read_text().replace("min(leader_leo, shortest)", "min(leader_leo, shortest) "))
    assert compiled.digest(copies) != compiled.digest(compiled.SOURCES)
    assert f"fleet-{compiled.digest(compiled.SOURCES)}" in leader.turn.stats.cache_path
    assert "fleet" not in machine.kind_of.stats.cache_path


def test_draws_are_the_same_on_every_machine():
    assert int(counter_rng.mixed(1, 2)) == 13757245211066428519
    assert counter_rng.key(5, 1, 2) == counter_rng.key(5, 1, 2) != counter_rng.key(5, 2, 1)
    waits = [counter_rng.exponential(7, n) for n in range(20_000)]
    assert np.mean(waits) == pytest.approx(1.0, abs=0.03)
    assert min(waits) >= 0
    assert counter_rng.logarithm(0.3) == pytest.approx(np.log(0.3), rel=1e-14)
