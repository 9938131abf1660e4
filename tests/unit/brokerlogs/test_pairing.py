"""Which line of a fetch belongs to which: by thread where the pattern names it, by nearness where it does not."""

import pytest

from generators.brokerlogs.parsing.parser import SourceParser
from tests.unit.brokerlogs.log_lines import (
    PARTITION,
    STATE,
    advanced,
    events,
    leader,
    line,
    partition,
    plain,
    recorded,
    short,
    skipped,
)


def rows(*lines, **settings):
    reported = events(leader(thread="metadata"), *lines, **settings)[1:]
    return short(reported, "ts", "replica_id", "leo", "leader_leo", "hw")


def test_a_fetch_that_moves_the_hw_comes_first_at_the_time_of_its_first_line():
    assert rows(
        skipped({2: 0, 3: 5, 1: 5}, ms=10),
        advanced(0, 5, ms=20, thread="a"),
        recorded(3, 5, ms=21, thread="b"),
        recorded(2, 5, ms=25, thread="a"),
    ) == [
        ("append", 10, None, None, 5, None),
        ("replica_leo", 10, 2, 0, None, None),
        ("replica_leo", 10, 3, 5, None, None),
        ("fetch", 20, 2, 5, None, None),
        ("hw", 20, 1, None, None, 5),
        ("fetch", 21, 3, 5, None, None),
    ]


def test_what_a_fetch_completes_stands_between_its_lines():
    progress = "Progress awaiting ISR acks for offset 5: acked: Set(broker 1: 5), awaiting Set()"
    reported = rows(
        advanced(0, 5, ms=20), line(partition(progress, "other-0"), ms=22), recorded(2, 5, ms=70), recorded(3, 5, ms=80)
    )
    assert [(kind, ts) for kind, ts, *_ in reported] == [("fetch", 20), ("hw", 20), ("fetch", 80)]


def test_the_leos_printed_by_a_fetch_come_after_it_and_give_it_the_leaders():
    assert rows(skipped({2: 5, 3: 4, 1: 6}, ms=10), recorded(2, 5, ms=12)) == [
        ("fetch", 10, 2, 5, 6, None),
        ("append", 10, None, None, 6, None),
        ("replica_leo", 10, 3, 4, None, None),
    ]


def test_a_hw_that_no_fetch_follows_was_moved_by_an_append_or_an_isr_change():
    reported = rows(advanced(0, 5, ms=10), recorded(2, 3, ms=11), recorded(3, 9, name="orders-2", ms=12))
    assert ("hw", 10, 1, None, None, 5) in reported
    assert ("fetch", 11, 2, 3, None, None) in reported


def test_a_fetch_below_the_hw_did_not_move_it():
    assert [kind for kind, *_ in rows(advanced(0, 5, ms=10), recorded(2, 4, ms=11))] == ["hw", "fetch"]


def kinds(*lines, isr="1,2,3"):
    """Of lines after the start of a leader with this ISR."""
    first = [leader(thread="metadata", isr=isr), recorded(3, 0, name="orders-9", thread="z", ms=5)]
    return [kind for kind, *_ in short(events(*first, *lines)[2:])]


ALONE, TWO = (partition(f"ISR updated to {isr}  and version updated to 4") for isr in ("1", "1,2"))


@pytest.mark.parametrize(
    ("isr", "before", "longest"),
    [
        pytest.param("1,2,3", [], 5000, id="only a fetch can move the HW"),
        pytest.param("1", [], 500, id="the leader is alone in its ISR"),
        pytest.param("1,2,3", [line(ALONE, ms=20)], 500, id="since"),
        pytest.param("1", [line(TWO, ms=20)], 5000, id="no more"),
        pytest.param(
            "1,2,3",
            [line(TWO, ms=9_600)],
            500,
            id="the ISR moves it",
        ),
    ],
)
def test_a_thread_may_stand_still_between_a_hw_and_its_fetch(isr, before, longest):
    reported = ["isr"] * len(before)
    for wait, expected in [(longest, ["fetch", "hw"]), (longest + 1, ["hw", "fetch"])]:
        pair = [advanced(0, 5, ms=10_000), recorded(2, 5, ms=10_000 + wait)]
        assert kinds(*before, *pair, isr=isr) == reported + expected


def test_without_a_line_of_the_isr_it_may_not():
    assert [kind for kind, *_ in short(events(advanced(0, 5, ms=10), recorded(2, 5, ms=511)))] == ["hw", "fetch"]


def test_leos_and_proposals_wait_no_longer_for_their_fetch():
    assert kinds(skipped({2: 5, 1: 6}, ms=10_000), recorded(2, 5, ms=10_501))[-1] == "fetch"
    assert kinds(skipped({2: 5, 1: 6}, ms=10_000), recorded(2, 5, ms=10_500))[0] == "fetch"


def test_the_isr_is_that_of_the_partition_and_of_metadata_too():
    changed = (
        "[Broker id=1] Skipped the become-leader state change for orders-1 with topic id Some(8x30CauwR6S1Ou0qiySY3A) "
        "and partition state LeaderAndIsrPartitionState(leader=1, leaderEpoch=0, isr=[1], partitionEpoch=1, "
        "replicas=[1, 2]) since it is already the leader with leader epoch 0."
    )
    other = leader(thread="metadata", name="orders-2", isr="1,2,3", ms=30)
    pair = [advanced(0, 5, ms=10_000), recorded(2, 5, ms=10_501)]
    assert kinds(line(changed, STATE, ms=20), other, *pair)[-2:] == ["hw", "fetch"]


def test_the_reader_waits_for_a_stall_only_where_there_may_be_one():
    """Until when, in log time of other threads, nothing behind a HW line is given out."""

    def given_out(isr, *more):
        parser = SourceParser("c", "s")
        parser.feed((leader(thread="metadata", isr=isr) + recorded(2, 0, ms=500) + "".join(more)).encode())
        parser.feed(advanced(0, 5, ms=10_000).encode())
        for waited in range(100, 9_000, 100):
            other = recorded(3, 9, name="orders-2", thread="b", ms=10_000 + waited)
            if parser.feed(other.encode()).num_rows:
                return waited
        return None

    assert given_out("1,2,3") == 5100
    assert given_out("1") == 600
    assert given_out("1,2,3", line(TWO, ms=9_900)) == 600


def test_a_pause_of_the_whole_broker_delays_nothing():
    parser = SourceParser("c", "s")
    parser.feed((leader(thread="metadata") + recorded(2, 0, ms=500) + advanced(0, 5, ms=10_000)).encode())
    after = recorded(3, 9, name="orders-2", thread="b", ms=11_600) + recorded(2, 5, ms=11_601)
    assert [kind for kind, *_ in short(plain(parser.feed(after.encode())))] == ["fetch", "hw", "fetch"]


def test_a_fetch_that_makes_a_replica_eligible_precedes_the_proposal_it_triggers():
    proposal = (
        "Submitting ISR state change PendingExpandIsr(newInSyncReplicaId=2, sentLeaderAndIsr=LeaderAndIsr(leader=1, "
        "leaderEpoch=2, isrWithBrokerEpoch=[BrokerState(brokerId=3, brokerEpoch=9), BrokerState(brokerId=2, "
        "brokerEpoch=8)], leaderRecoveryState=RECOVERED, partitionEpoch=3), leaderRecoveryState=RECOVERED, "
        "lastCommittedState=CommittedPartitionState(isr=Set(3), leaderRecoveryState=RECOVERED))"
    )
    sending = line("Sending AlterPartition to controller AlterPartitionRequestData()", "x.AlterPartitionManager", ms=12)
    reported = rows(line(partition(proposal), ms=10), sending, advanced(0, 5, ms=13), recorded(2, 5, ms=14))
    assert [(kind, ts) for kind, ts, *_ in reported] == [("fetch", 10), ("hw", 10), ("isr_proposed", 10)]


def test_an_equal_hw_only_means_a_rolled_segment():
    assert [kind for kind, *_ in rows(advanced(5, 5, ms=10), recorded(2, 5, ms=11))] == ["fetch"]


def test_the_stock_pattern_pairs_by_nearness():
    def stock(text, ms):
        message = text.split("|", 4)[4].rstrip("\n")
        return f"[2026-11-21 01:27:06,{ms:03d}] DEBUG {message} ({PARTITION})\n"

    reported = rows(
        stock(advanced(0, 5), 20), stock(recorded(3, 9, name="orders-2"), 21), stock(recorded(2, 5), 22), broker_id=1
    )
    assert [(kind, ts) for kind, ts, *_ in reported] == [("fetch", 20), ("hw", 20), ("fetch", 21)]


def test_no_append_is_invented_while_the_leader_is_alone():
    assert rows(advanced(0, 5, ms=10)) == [("hw", 10, 1, None, None, 5)]


def test_leos_printed_by_an_append_do_not_belong_to_a_later_fetch_of_the_same_thread():
    """Seen on a real cluster: the next fetch of that thread came 212 ms and two records later."""
    reported = rows(skipped({2: 8, 3: 5, 1: 9}, ms=10), recorded(2, 11, ms=222))
    assert [row for row in reported if row[0] in ("append", "fetch")] == [
        ("append", 10, None, None, 9, None),
        ("fetch", 222, 2, 11, None, None),
    ]
