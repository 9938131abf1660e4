"""Each scenario ends in the numbers of the worked example that it shows."""

import re

import pytest

from generators.simulator.scenarios import SCENARIOS, play
from generators.simulator.scenarios.explain import COLUMNS, lines
from generators.simulator.scenarios.fixtures import KEY


@pytest.fixture(scope="module")
def played():
    """Plays each scenario once."""
    done = {}

    def get(name):
        if name not in done:
            done[name] = play(SCENARIOS[name])
        return done[name]

    return get


def positions(step):
    """{broker: (LEO, HW)}"""
    return {broker: (at.leo, at.hw) for broker, at in step.partitions[KEY].replicas.items()}


def leos_and_hws(performance, act=0):
    return [positions(step) for step in performance.acts[act].steps]


def isrs(performance, act=0):
    return [step.partitions[KEY].isr for step in performance.acts[act].steps]


def test_the_shortest_in_sync_replica_decides_what_is_visible(played):
    performance = played("who-decides")
    *_, before, after = performance.acts[0].steps
    assert positions(before) == {1: (4, 2), 2: (4, 2), 3: (2, 2)}
    assert after.partitions[KEY].leader == 2
    assert performance.result == (
        "the leader has a b c d and its shortest in-sync replica a b, so consumers see a b; "
        "with broker 2 in its place they see a b."
    )


def test_the_hw_travels_with_fetches(played):
    assert leos_and_hws(played("hw-travels-with-fetches")) == [
        {1: (2, 0), 2: (0, 0), 3: (0, 0)},
        {1: (2, 0), 2: (2, 0), 3: (1, 0)},
        {1: (3, 0), 2: (2, 0), 3: (1, 0)},
        {1: (3, 1), 2: (3, 1), 3: (2, 1)},
    ]
    assert "max(0, min(3, 2, 1)) = 1" in played("hw-travels-with-fetches").result


def test_a_record_takes_two_rounds(played):
    assert leos_and_hws(played("two-rounds")) == [
        {1: (1, 0), 2: (0, 0)},
        {1: (1, 0), 2: (1, 0)},
        {1: (1, 1), 2: (1, 1)},
    ]


def test_a_followers_hw_is_the_leaders_or_its_own_leo(played):
    assert leos_and_hws(played("follower-hw")) == [
        {1: (10, 10), 2: (10, 10), 3: (0, 0)},
        {1: (10, 10), 2: (10, 10), 3: (0, 0)},
        {1: (10, 10), 2: (10, 10), 3: (3, 3)},
        {1: (10, 10), 2: (10, 10), 3: (10, 10)},
    ]


def test_alone_in_the_isr_the_hw_jumps_to_the_leo(played):
    assert leos_and_hws(played("alone-in-the-isr")) == [
        {1: (3, 0), 2: (0, 0)},
        {1: (3, 3), 2: (0, 0)},
        {1: (5, 5), 2: (0, 0)},
    ]
    assert isrs(played("alone-in-the-isr")) == [(1, 2), (1,), (1,)]


def test_all_replicas_are_in_sync_or_out_of_sync(played):
    performance = played("in-sync-and-out-of-sync-replicas")
    first, behind, level = performance.acts[0].steps
    assert positions(first) == {1: (3, 3), 2: (3, 3), 3: (3, 3)}
    assert {broker: leo for broker, (leo, _) in positions(behind).items()} == {1: 5, 2: 5, 3: 4}
    assert positions(behind)[1] == (5, 4)
    assert positions(level)[1] == (5, 5)
    assert "the HW is 4 (0..3 are visible)" in performance.result
    assert "once broker 3 has caught up 5" in performance.result


def test_consumers_do_not_see_what_is_above_the_hw_and_brokers_do(played):
    performance = played("above-the-hw")
    assert leos_and_hws(performance)[1:] == [{1: (9, 6), 2: (6, 6)}, {1: (9, 6), 2: (9, 6)}]
    assert "consumers see 0..5 and not 6..8" in performance.result


def test_by_time_a_slow_follower_leaves_catches_up_and_returns(played):
    performance = played("lag-rules")
    assert isrs(performance) == [(1, 2), (1,), (1, 2)]
    assert [leos[2][0] for leos in leos_and_hws(performance)] == [0, 30, 100]


def test_by_messages_a_follower_leaves_at_the_first_one_too_many(played):
    performance = played("lag-rules")
    assert isrs(performance, act=1) == [(1, 2), (1,), (1, 2)]
    behind = [at[1][0] - at[2][0] for at in leos_and_hws(performance, act=1)]
    assert behind == [4, 5, 0]


@pytest.mark.parametrize(("act", "from_offset"), [(0, 3), (1, 5)], ids=["cut at the HW", "by leader epochs"])
def test_a_follower_leaves_the_isr_returns_and_rejoins_at_the_hw(played, act, from_offset):
    performance = played("follower-failure")
    stored, gone, back, fetched, joined = leos_and_hws(performance, act)
    assert stored == {1: (5, 3), 2: (5, 3)}
    assert gone[1] == (8, 8)
    assert back[2][0] == from_offset
    assert fetched[2] == joined[2] == (8, 8)
    assert isrs(performance, act) == [(1, 2), (1,), (1,), (1,), (1, 2)]


@pytest.mark.parametrize("act", [0, 1], ids=["cut at the HW", "by leader epochs"])
def test_after_a_leader_fails_replicas_agree_though_records_are_lost_and_doubled(played, act):
    before, led, _, after = played("leader-failure").acts[act].steps
    assert positions(before) == {1: (6, 3), 2: (5, 3), 3: (4, 3)}
    assert led.partitions[KEY].leader == 2
    assert led.partitions[KEY].replicas[3].leo == (3 if act == 0 else 4)
    assert {at.records for at in after.partitions[KEY].replicas.values()} == {tuple("abcdee")}


def test_cutting_at_the_hw_loses_what_leader_epochs_keep(played):
    cut, kept = played("cutting-at-the-hw").acts[:2]
    for act in (cut, kept):
        assert positions(act.steps[0]) == {1: (2, 2), 2: (2, 1)}
    assert {at.records for at in cut.steps[-1].partitions[KEY].replicas.values()} == {("a",)}
    assert {at.records for at in kept.steps[-1].partitions[KEY].replicas.values()} == {("a", "b")}
    assert "cutting at the HW loses the committed offset 1" in played("cutting-at-the-hw").result
    assert "with leader epochs keeps a b" in played("cutting-at-the-hw").result


def test_cutting_at_the_hw_leaves_replicas_that_differ_and_leader_epochs_do_not(played):
    cut, agreed = played("cutting-at-the-hw").acts[2:]
    assert [at.records for at in cut.steps[-1].partitions[KEY].replicas.values()] == [("a", "b"), ("a", "c")]
    assert [at.records for at in agreed.steps[-1].partitions[KEY].replicas.values()] == [("a", "c"), ("a", "c")]
    assert (
        "they differ at offset 1 (b and c), with leader epochs they agree on a c" in played("cutting-at-the-hw").result
    )


def test_without_unclean_elections_a_partition_stays_offline(played):
    last = played("unclean-election").acts[0].steps[-1].partitions[KEY]
    assert last.leader is None
    assert last.replicas[1].leo == 300


def test_an_unclean_election_buys_availability_with_committed_records_and_they_are_named(played):
    steps = played("unclean-election").acts[1].steps
    assert positions(steps[1])[1] == (300, 300)
    assert steps[3].partitions[KEY].leader == 2
    assert positions(steps[3])[2] == (120, 120)
    assert positions(steps[4])[1][0] == 120
    assert "the committed offsets 120..299 (180) are gone" in played("unclean-election").result


def test_the_outcomes_of_an_older_and_todays_rule_stand_side_by_side(played):
    assert [len(played(name).acts) for name in ("lag-rules", "cutting-at-the-hw", "unclean-election")] == [2, 4, 2]


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_is_the_same_every_time(name, played):
    again = play(SCENARIOS[name])
    assert list(lines(again.acts, again.result)) == list(lines(played(name).acts, played(name).result))


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_script_fits_its_columns_and_ends_with_a_result(name, played):
    text = list(lines(played(name).acts, played(name).result))
    assert max(map(len, text)) <= COLUMNS
    assert " ".join(text).rstrip().endswith(played(name).result[-30:])


def test_the_outcomes_stand_side_by_side_in_the_end(played):
    text = "\n".join(lines(played("cutting-at-the-hw").acts, played("cutting-at-the-hw").result, steps=False))
    assert re.search(r"Divergence, cutting at the HW \(Kafka 0.10\) +The same script with leader epochs", text)
    assert re.search(r"broker 1 follows .* ab \| +broker 1 follows .* ac \|\n", text)
    assert "broker 2 fetches" not in text


def test_every_step_shows_leo_and_hw_of_every_replica(played):
    text = "\n".join(lines(played("two-rounds").acts, played("two-rounds").result))
    assert "broker 1 leads    LEO   1  HW   1" in text
    assert text.count("broker 2 follows  LEO") == 3
