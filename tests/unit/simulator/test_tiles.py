"""Tiles of a large cluster: each is the history of the simulated partitions under one set of broker-wide rows."""

from collections import Counter
from datetime import timedelta
from itertools import pairwise

import pyarrow.compute as pc
import pytest

from generators.simulator.telemetry import tiles
from generators.simulator.telemetry.tiles import PHASE
from pipelines.commands.simulate.plan import plan, tiled
from pipelines.commands.simulate.run import run
from pipelines.commands.simulate.sinks import bronze_sink
from pipelines.lake.bronze import read_events
from pipelines.replication import replay
from pipelines.replication.facts.tables import Facts
from pipelines.settings import Simulate
from tests.simulated.truth_differences import differences, rules_of
from tests.unit.simulator.simulated_runs import complaints

PARTITIONS, TILES = 31, 4
FAULTS = ["9s kill 2 for 8s", "30s stop 3 for 4s", "40s reassign orders-9 to 5,2,1"]
SIZES = {"orders": PARTITIONS, "new": 3}


def planned(faults=FAULTS, **more):
    asked = {"brokers": 6, "topics": f"orders:{PARTITIONS}x3", "duration": 60, "load": ["steady:300"]}
    return tiled(plan(Simulate(**asked | {"fault": faults} | more)), most=8)


def cluster(folder, made):
    outcome = run(made, bronze_sink(made, str(folder)), lambda words: None)
    return read_events(str(folder)), outcome.truth


def in_order(events):
    return events.sort_by([(name, "ascending") for name in ("source_id", "source_seq")])


@pytest.fixture(scope="module")
def faulty(tmp_path_factory):
    return cluster(tmp_path_factory.mktemp("faulty"), planned())


def facts_of(events):
    return replay(events, rules_of(planned().settings))


@pytest.fixture(scope="module")
def facts(faulty):
    return facts_of(faulty[0])


def of_tile(table, tile):
    """The rows of one tile, with the partitions that were simulated."""
    number = table["partition"]
    mine = pc.equal(pc.subtract(number, pc.multiply(pc.divide(number, TILES), TILES)), tile)
    at = table.schema.get_field_index("partition")
    return table.set_column(at, "partition", pc.divide(number, TILES)).filter(mine)


def histories_of(table, kept):
    """By partition: what happened to it, in order; of an ISR its size, since tiles have brokers in another order."""
    found = {}
    for row in table.sort_by("ts").to_pylist():
        found.setdefault(row["partition"], []).append([len(v) if isinstance(v := row[k], list) else v for k in kept])
    return found


def test_every_partition_is_there_and_none_beyond(faulty):
    events, _ = faulty
    assert sorted(set(events["partition"].to_pylist())) == list(range(-1, PARTITIONS))


def of_first_tile(table):
    """Its rows as they are, and those of brokers."""
    if "partition" not in table.column_names:
        return table
    number = table["partition"]
    return table.filter(pc.equal(pc.multiply(pc.divide(number, TILES), TILES), number))


def test_the_first_tile_is_what_was_simulated_to_the_last_fact_and_its_truth(faulty, facts):
    _, truth = faulty
    mine = Facts.of(**{name: of_first_tile(t) for name, t in facts.tables().items() if "partition" in t.column_names})
    assert len(truth["truth_isr"]) > 10
    assert differences(mine, truth) == []


def test_nothing_is_missing_and_no_report_disagrees_in_any_tile(facts):
    assert complaints(facts) == []


def test_each_tile_has_the_history_of_the_first_with_offsets_and_times_of_its_own(facts):
    for name, kept in {
        "partition_hw": ("kind", "leader_epoch", "isr"),
        "isr_changes": ("isr_before", "isr_after"),
    }.items():
        parts = [of_tile(getattr(facts, name), tile) for tile in range(TILES)]
        histories = [histories_of(part, kept) for part in parts]
        assert sum(map(len, histories[0].values())) > 20
        assert all(other[number] == histories[0][number] for other in histories[1:] for number in other)
    ends = [pc.max(of_tile(facts.partition_hw, tile)["hw"]).as_py() for tile in range(TILES)]
    assert len(set(ends)) > 1


def test_broker_wide_rows_stand_between_the_same_rows_of_each_tile(faulty):
    """Else a tile would be led by a broker that is down."""
    events = in_order(faulty[0])
    for source in set(events["source_id"].to_pylist()):
        rows = events.filter(pc.equal(events["source_id"], source)).to_pylist()
        before = {tile: [] for tile in range(TILES)}
        count = Counter()
        for row in rows:
            if row["partition"] >= 0:
                count[row["partition"] // TILES, row["partition"] % TILES] += 1
            elif row["event_type"] != "progress":
                for tile in before:
                    before[tile].append([count[base, tile] for base in range(PARTITIONS // TILES)])
        assert all(each == before[0] for each in before.values())


def test_numbers_have_no_holes_within_source_and_partition(faulty):
    events, _ = faulty
    for keys, number in ((["source_id"], "source_seq"), (["source_id", "topic", "partition"], "seq")):
        groups = events.group_by(keys).aggregate([(number, "count_distinct"), (number, "max"), (number, "count")])
        for group in groups.to_pylist():
            assert group[f"{number}_max"] + 1 == group[f"{number}_count"] == group[f"{number}_count_distinct"]


def test_times_do_not_fall_within_a_source_and_nothing_comes_after_its_last_progress(faulty):
    events, _ = faulty
    for source in set(events["source_id"].to_pylist()):
        rows = in_order(events.filter(pc.equal(events["source_id"], source)))
        times = rows["ts"].to_pylist()
        assert rows["event_type"].to_pylist()[-1] == "progress"
        assert all(b - a >= timedelta(0) for a, b in pairwise(times))


@pytest.mark.parametrize("rows", [64, 1000])
def test_a_history_does_not_depend_on_the_size_of_tables(rows, faulty, tmp_path, monkeypatch):
    monkeypatch.setattr(tiles, "ROWS", rows)
    again, _ = cluster(tmp_path, planned())
    assert in_order(again).equals(in_order(faulty[0]))


def test_brokers_to_which_nothing_happens_change_places(tmp_path):
    made = planned(faults=["9s kill 2 for 8s"], clock_offsets={"3": "1h"})
    assert made.alike == (1, 4, 5, 6)
    events, _ = cluster(tmp_path, made)
    leaders = events.filter(pc.equal(events["event_type"], "leader"))
    first = {row["partition"]: row for row in reversed(leaders.sort_by("ts").to_pylist())}
    for partition, row in first.items():
        base = first[partition // TILES * TILES]
        assert row["source_id"] == f"broker-{row['leader_id']}/replication.log"
        moved = (row["leader_id"] != base["leader_id"]) == (base["leader_id"] in made.alike and partition % TILES > 0)
        assert moved
        assert len(set(row["replicas"])) == 3
    assert {each for each in complaints(facts_of(events)) if not each.startswith("a clock of broker-3/")} == set()
    epochs = set(zip(*(events[name].to_pylist() for name in ("replica_id", "broker_epoch")), strict=True))
    epochs = {(replica, epoch) for replica, epoch in epochs if epoch is not None}
    assert Counter(r for r, _ in epochs) == {1: 1, 2: 2, 3: 1, 4: 1, 5: 1, 6: 1}


def test_no_brokers_change_places_in_a_rolling_restart():
    assert planned(faults=["9s rolling-restart"]).alike == ()


def test_a_tile_has_its_share_of_partitions_load_and_faults():
    made = planned(faults=[*FAULTS, "50s create-topic new:9x3"])
    assert (made.tiles, made.partitions) == (TILES, PARTITIONS)
    assert [topic.partitions for topic in made.settings.topics] == [8]
    assert made.loads[0].rate == 300 / TILES
    assert [fault.on for fault in made.faults if fault.do == "reassign"] == [("orders", 2)]
    assert [fault.on.partitions for fault in made.faults if fault.do == "create-topic"] == [3]
    assert made.sizes == {"orders": PARTITIONS, "new": 9}


def test_a_topic_that_comes_later_has_as_many_partitions_as_asked_for(tmp_path):
    events, _ = cluster(tmp_path, planned(faults=["20s create-topic new:9x3", "40s delete-topic orders"]))
    new = events.filter(pc.equal(events["topic"], "new"))
    assert sorted(set(new["partition"].to_pylist())) == list(range(9))


def test_rows_of_tiles_are_late_by_less_than_a_phase(facts):
    began = [of_tile(facts.partition_hw, tile)["ts"].to_pylist() for tile in range(TILES)]
    assert max(map(min, began)) - min(map(min, began)) < timedelta(microseconds=PHASE)
