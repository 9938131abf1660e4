"""The truth of a fleet: all of its rare events, and its HWs now and then, as the facts have them."""

from bisect import bisect_right
from collections import defaultdict
from functools import cache

import numpy as np
import pyarrow as pa
import pytest

from generators.simulator.clients.load import parse
from generators.simulator.cluster.log import ReplicaLog, Run
from generators.simulator.cluster.settings import START, Clock, Settings, Topic
from generators.simulator.faults import script as faults
from generators.simulator.fleet.acknowledgements import Acknowledgements, joined
from generators.simulator.fleet.bootstrap import spread
from generators.simulator.fleet.fleet import Fleet
from generators.simulator.truth.compare import differences
from pipelines.replication import replay

BROKERS = (1, 2, 3, 4, 5)
TOPICS = spread(2, 10, BROKERS)
SETTINGS = Settings(brokers=BROKERS, topics=TOPICS, clocks={2: Clock(1_500_000)}, seed=8)


@cache
def run():
    """Facts and truth of a fleet whose broker 2 dies and comes back."""
    fault = faults.parse("4s kill 2 for 18s")
    made = Fleet(SETTINGS, [parse("steady:60")], 50.0, faults=[fault], sample_every=5.0)
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


def test_a_partition_in_single_steps_has_a_row_for_every_change():
    facts, truth = run()
    guests = {(r["topic"], r["partition"]) for r in truth["truth_hw"].to_pylist() if r["term"] > 0}
    assert guests == {(t.name, p) for t in TOPICS for p in range(t.partitions) if 2 in t.assignment[p]}
    starts = [r for r in truth["truth_hw"].to_pylist() if r["kind"] == "term_start"]
    elected = [r for r in facts.partition_hw.to_pylist() if r["kind"] == "term_start" and r["leader_epoch"] > 0]
    assert len(starts) == len(elected) == 4
    assert all(r["at"].timestamp() > START / 1e6 + 4 for r in starts)


def test_all_that_producers_were_promised_is_there_where_nothing_is_lost():
    """With acks=1 that is all that was written, but for what single steps refused while nobody led."""
    facts, truth = run()
    records = truth["truth_records"].to_pylist()
    assert [(r["topic"], r["partition"]) for r in records] == [(t.name, p) for t in TOPICS for p in range(t.partitions)]
    assert all(r["lost"] == 0 and r["lost_from"] == [] for r in records)
    written = {(r["topic"], r["partition"]): r["leo"] for r in records}
    answered = {(r["topic"], r["partition"]): r["acknowledged"] for r in records}
    without = {place for place in written if 2 not in TOPICS[int(place[0][-1])].assignment[place[1]]}
    assert {place: answered[place] for place in without} == {place: written[place] for place in without}
    assert all(0 < answered[place] <= written[place] for place in written)
    assert sum(answered.values()) > 0.98 * sum(written.values())
    last = {(r["topic"], r["partition"]): r["hw"] for r in facts.partition_hw.to_pylist()}
    assert {(r["topic"], r["partition"]): r["hw"] for r in records} == last


def lost(load, *lines):
    """Truth of a fleet of which one partition is led by a broker whose followers are away, and which then dies."""
    topics = (Topic("orders", 4, 2, unclean=True, assignment=((1, 2), (2, 3), (3, 1), (1, 3))),)
    settings = Settings(brokers=(1, 2, 3), topics=topics, seed=4, session_timeout_ms=3_000)
    made = Fleet(settings, [parse(load)], 60.0, faults=[faults.parse(line) for line in lines], sample_every=10.0)
    for part in made.parts():
        part.done()
    return made, made.truth.close()


UNCLEAN = ("10s kill 2 for 20s", "25s kill 1 for 20s")


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_acknowledged_records_that_an_unclean_election_loses_are_named(acks):
    made, truth = lost(f"steady:200,acks={acks}", *UNCLEAN)
    assert not made.engine_switch.stepped
    (fall,) = [r for r in truth["truth_regressions"].to_pylist() if r["class"] == "unclean_loss"]
    place = (fall["topic"], fall["partition"])
    records = {(r["topic"], r["partition"]): r for r in truth["truth_records"].to_pylist()}
    gone = records[place]
    assert place == ("orders", 0)
    assert [r["lost"] for p, r in records.items() if p != place] == [0, 0, 0]
    if acks == "0":
        assert [r["acknowledged"] for r in records.values()] == [0, 0, 0, 0]
    else:
        assert gone["lost_from"] == [fall["lost_from"]]
        assert gone["lost_to"][0] == pytest.approx(fall["lost_to"], abs=30)
        assert gone["lost"] == gone["lost_to"][0] - gone["lost_from"][0] > 100
        assert gone["acknowledged"] - gone["lost"] <= gone["leo"]


def test_what_was_acknowledged_in_rounds_can_be_lost_among_single_steps():
    """A topic of one replica: its disk is lost, and with it all that was ever acknowledged."""
    settings = Settings(brokers=(1, 2), topics=(Topic("orders", 2, 1),), seed=4, session_timeout_ms=3_000)
    made = Fleet(
        settings, [parse("steady:50")], 40.0, faults=[faults.parse("20s lose-disk 1 for 5s")], sample_every=10.0
    )
    for part in made.parts():
        part.done()
    one, other = made.truth.close()["truth_records"].to_pylist()
    assert one["lost_from"] == [0]
    assert one["lost"] == one["lost_to"][0] > 300
    assert one["acknowledged"] == one["lost"] + one["leo"]
    assert (other["lost"], other["acknowledged"]) == (0, other["leo"])


def test_a_deleted_topic_has_no_records_and_one_created_has_its_own():
    _, truth = lost("steady:50", "20s delete-topic orders", "25s create-topic orders:3x2")
    records = truth["truth_records"].to_pylist()
    assert [(r["partition"], r["topic_id"]) for r in records] == [(p, "ordersAAAAAAAA00000002") for p in range(3)]
    assert all(0 < r["acknowledged"] == r["leo"] for r in records)
    assert {r["topic_id"][-1] for r in truth["truth_hw"].to_pylist()} == {"1", "2"}


def test_ranges_that_touch_are_one_and_what_is_gone_is_left_out():
    assert joined([(5, 9), (0, 3), (3, 5), (7, 8), (20, 20)]) == [(0, 9)]
    promised = Acknowledgements.of([parse("steady:1,acks=all")], np.array([0, -1], dtype=np.int32))
    assert promised.acks.tolist() == [-1, 0]
    assert promised.entered_steps(0, hw=7, leo=9, run=Run(2, 9, 0, 1)) == [Run(2, 7, 0, 1)]
    log = ReplicaLog(2)
    log.extend([Run(2, 5, 0, 1), Run(5, 8, 1, 2)])
    promised.left_steps(0, 8, log, [Run(2, 7, 0, 1), Run(5, 8, 1, 2)])
    assert promised.gone[0] == [(5, 7)]
    assert promised.acknowledged.tolist() == [10, 0]
    assert promised.so_far(np.array([0, 1]), np.array([9, 4]), np.array([12, 5])).tolist() == [11, 0]
