"""Scenarios that look at single records: acknowledgements, files, partitions, idempotence, delivery."""

import pytest

from generators.simulator.clients.consumer import Consumer
from generators.simulator.scenarios import SCENARIOS, play
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


def last(performance, act):
    return performance.acts[act].steps[-1]


def log(step, broker, key=KEY):
    return "".join(step.partitions[key].replicas[broker].records)


def read(performance, act, partition=0):
    """What a consumer reads at the end of an act."""
    found = Consumer(performance.acts[act].simulation, "orders", partition).poll()
    return "".join(record.value for record in found)


def promised(performance, act):
    """The values acknowledged to producers, by the cluster's own account."""
    runs = performance.acts[act].simulation.acknowledged[KEY]
    return "".join(value for run in runs for value in run.batch.values)


def test_acks_1_and_a_leader_that_dies_before_replication_loses_what_was_acknowledged(played):
    performance = played("acks-and-min-isr")
    assert (promised(performance, 0), read(performance, 0)) == ("ab", "a")
    assert [log(last(performance, 0), broker) for broker in (1, 2, 3)] == ["a", "a", "a"]


def test_acks_all_and_a_leader_that_dies_before_its_answer_doubles(played):
    performance = played("acks-and-min-isr")
    assert (promised(performance, 1), read(performance, 1)) == ("ab", "abb")


def test_acks_all_with_the_leader_alone_and_min_isr_1_loses(played):
    performance = played("acks-and-min-isr")
    assert performance.acts[2].steps[1].partitions[KEY].isr == (1,)
    assert (promised(performance, 2), read(performance, 2)) == ("ab", "a")


def test_acks_all_with_the_leader_alone_and_min_isr_2_is_refused_instead(played):
    performance = played("acks-and-min-isr")
    assert [log(step, 1) for step in performance.acts[3].steps[:2]] == ["a", "a"]
    assert (promised(performance, 3), read(performance, 3)) == ("ab", "ab")


def test_acks_and_min_isr_in_one_sentence(played):
    assert played("acks-and-min-isr").result == (
        "acks=1, and the leader dies before replication: b was acknowledged and is lost; "
        "acks=all, and the leader dies after replication, before the answer: b is there 2 times; "
        "acks=all with ISR 1 and min.insync.replicas=1: b was acknowledged and is lost; "
        "acks=all with ISR 1 and min.insync.replicas=2: b is refused (NOT_ENOUGH_REPLICAS) until then; "
        "a b are there once each."
    )


def test_an_offset_is_found_by_segment_then_index_then_scan(played):
    notes = [line.split() for line in played("segment-lookup").acts[0].steps[1].annotations]
    assert notes[3] == ["87", "00000000000000000050.log", "79", "->", "2000", "70", "80", "3000"]
    assert [row[-1] for row in notes[1:]] == ["0", "2000", "3000", "2000"]


def test_retention_ends_at_the_high_watermark(played):
    performance = played("segment-lookup")
    replicas = last(performance, 0).partitions[KEY].replicas
    assert {b: (at.log_start, at.hw, at.leo) for b, at in replicas.items()} == {1: (100, 110, 130), 2: (100, 110, 130)}
    assert "retention deletes 2 of 3 segments" in performance.result


def test_only_segments_from_the_recovery_point_on_are_read_again(played):
    assert played("recovery-point").result == (
        "after kill -9 00000000000000000100.log is read again, and the LEO is 130, 130 when it has fetched; "
        "after a power failure 00000000000000000100.log is read again, and the LEO is 100, 130 when it has fetched; "
        "after a clean shutdown nothing is read again, and the LEO is 130, 130 when it has fetched."
    )


def test_the_files_end_where_the_broker_goes_on(played):
    """The same crash by the broker's rules and by those of its files."""
    for act, end in enumerate((130, 100, 130)):
        restarted = played("recovery-point").acts[act].steps[1]
        segment = next(line for line in restarted.annotations if line.startswith("00000000000000000100.log"))
        assert restarted.partitions[KEY].replicas[1].leo == end
        assert segment.split()[1] == ("100..129" if end == 130 else "none")


def test_a_named_partition_then_the_keys_then_turns_or_bytes(played):
    performance = played("partitioner")
    leos = [[step.partitions["orders", p].replicas[1].leo for p in range(4)] for step in performance.acts[0].steps]
    assert leos[0] == [0, 1, 0, 0]
    assert leos[1] == [2, 1, 1, 1]
    assert [after - before for before, after in zip(leos[1], leos[2], strict=True)] == [3, 3, 3, 3]
    assert all((after - before) % 4 == 0 for before, after in zip(leos[2], leos[3], strict=True))
    assert "a key has its partition (21 0, foobar 2, abc 3)" in performance.result


def test_a_retry_is_stored_once_with_idempotence_and_twice_without(played):
    performance = played("idempotent-producer")
    assert [read(performance, act) for act in (0, 1)] == ["abb", "ab"]
    assert [promised(performance, act) for act in (0, 1)] == ["ab", "ab"]


def test_idempotence_protects_neither_across_sessions_nor_across_partitions(played):
    performance = played("idempotent-producer")
    assert read(performance, 2) == "abb"
    assert (read(performance, 3, 0), read(performance, 3, 1)) == ("ab", "b")
    assert "(1000 becomes 1001)" in performance.result


def test_delivery_at_most_once_at_least_once_and_exactly_once_on_one_script(played):
    performance = played("delivery-guarantees")
    assert [read(performance, act) for act in range(3)] == ["ac", "abcc", "abc"]
    assert performance.result.startswith(
        "acks=0: of 3 records 1 lost and 0 doubled, at most once; "
        "acks=all: of 3 records 0 lost and 1 doubled, at least once; "
        "acks=all and idempotence: of 3 records 0 lost and 0 doubled, exactly once; "
    )


def test_a_consumer_that_dies_makes_at_most_or_at_least_once_of_exactly_once(played):
    assert played("delivery-guarantees").result.endswith(
        "one that first commits has at most once (a b d), one that first processes has at least once (a b c c d)."
    )


def test_with_acks_0_an_error_is_a_closed_connection_and_what_was_under_way_is_lost_too(played):
    performance = played("acks-0-closes-the-connection")
    assert [(read(performance, act, 0), read(performance, act, 1)) for act in (0, 1)] == [("ac", "k"), ("abc", "klmn")]
    assert performance.result == (
        "acks=0: the connection is closed, without a word about any record; of 7 records b l m n are lost; "
        "acks=1: NOT_LEADER_OR_FOLLOWER for b; of 7 records nothing is lost."
    )


def test_the_producer_asks_who_leads_once_its_connection_is_closed(played):
    *_, last = played("acks-0-closes-the-connection").acts[0].steps
    assert [h.kind for h in last.happened if h.kind == "append"] == ["append"]
    assert {h.broker for h in last.happened if h.kind == "append"} == {2}


def test_n_failures_take_n_plus_1_replicas_with_an_isr_and_2n_plus_1_with_a_majority(played):
    performance = played("isr-against-majority")
    assert performance.result == (
        "with an ISR 3 replicas outlive 2 failures (broker 3 has a b c); a majority of 3 does not: nothing is decided "
        "any more, one of 5 goes on."
    )
    assert [len(act.simulation.quorum.nodes) for act in performance.acts] == [1, 3, 5]
    assert [act.simulation.quorum.active is not None for act in performance.acts] == [True, False, True]


def test_what_is_left_of_an_isr_has_all_that_was_committed(played):
    last = played("isr-against-majority").acts[0].steps[-1].partitions[KEY]
    assert (last.leader, last.isr, last.replicas[3].records) == (3, (3,), ("a", "b", "c"))
    assert [last.replicas[broker].state for broker in (1, 2)] == ["down", "down"]


def test_each_of_the_twenty_systems_has_its_scenario():
    assert {scenario.system for scenario in SCENARIOS.values()} == set(range(1, 21))


def test_a_consumer_of_a_follower_sees_what_is_below_that_followers_hw(played):
    """KIP-392: the follower has both records, and has not been told the HW yet."""
    performance = played("nearest-replica")
    first, second, _ = performance.acts[0].steps
    assert [
        (step.partitions[KEY].replicas[3].leo, step.partitions[KEY].replicas[3].hw) for step in (first, second)
    ] == [
        (2, 0),
        (2, 2),
    ]
    assert "a consumer of it reads nothing while one of the leader reads a b; a fetch later it reads a b" in (
        performance.result
    )


def test_order_holds_within_a_partition_only(played):
    assert played("order-in-a-partition").result == (
        "sent as a b c d, read as b d a c: a before c and b before d are in order, as they share a partition; nothing "
        "orders the others."
    )


def test_duplicates_are_removed_where_records_are_applied(played):
    assert played("deduplicated-downstream").result == (
        "processed are a b b c b c, at least once; applied, by the ids that are known already, a b c: exactly once."
    )
