"""The truth of a fleet: all of its rare events, and its HWs now and then, as the facts have them."""

from bisect import bisect_right
from collections import defaultdict
from functools import cache

import pyarrow as pa

from generators.simulator.clients.load import parse
from generators.simulator.cluster.settings import START, Clock, Settings
from generators.simulator.faults import script as faults
from generators.simulator.fleet.fleet import Fleet
from generators.simulator.fleet.opening import spread
from generators.simulator.truth.compare import differences
from pipelines.replication import replay

BROKERS = (1, 2, 3, 4, 5)
TOPICS = spread(2, 10, BROKERS)
SETTINGS = Settings(brokers=BROKERS, topics=TOPICS, clocks={2: Clock(1_500_000)}, seed=8)


@cache
def run():
    """Facts and truth of a fleet whose broker 2 dies and comes back."""
    fault = faults.parse("4s kill 2 for 18s")
    made = Fleet(SETTINGS, [parse("steady:60")], 50.0, faults=[fault], look_every=5.0)
    events = pa.concat_tables([part.copied() for part in made.parts()])
    return replay(events), made.truth.close()


def test_isr_changes_out_of_sync_stretches_and_losses_are_the_true_ones():
    facts, truth = run()
    assert len(truth["truth_isr"]) == 24
    assert [d for d in differences(facts, truth) if not d.startswith("HW of")] == []


def test_reconstructed_hws_are_the_true_ones_at_every_look():
    facts, truth = run()
    series = defaultdict(list)
    for row in facts.partition_hw.to_pylist():
        series[row["topic"], row["partition"]].append((row["ts"], row["leader_id"], row["hw"]))
    looked = 0
    for row in truth["truth_hw"].to_pylist():
        if row["term"] == 0:
            mine = [(ts, hw) for ts, leader, hw in series[row["topic"], row["partition"]] if leader == row["leader_id"]]
            assert mine[bisect_right(mine, (row["ts"], 1 << 60)) - 1][1] == row["hw"]
            assert row["hw"] <= row["leader_leo"]
            looked += 1
    assert looked > 100


def test_a_partition_among_single_steps_is_told_of_at_every_change():
    facts, truth = run()
    guests = {(r["topic"], r["partition"]) for r in truth["truth_hw"].to_pylist() if r["term"] > 0}
    assert guests == {(t.name, p) for t in TOPICS for p in range(t.partitions) if 2 in t.assignment[p]}
    starts = [r for r in truth["truth_hw"].to_pylist() if r["kind"] == "term_start"]
    elected = [r for r in facts.partition_hw.to_pylist() if r["kind"] == "term_start" and r["leader_epoch"] > 0]
    assert len(starts) == len(elected) == 4
    assert all(r["at"].timestamp() > START / 1e6 + 4 for r in starts)
