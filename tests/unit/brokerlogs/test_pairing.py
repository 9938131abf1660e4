"""Which line of a fetch belongs to which: by thread where the pattern names it, by nearness where it does not."""

from log_lines import PARTITION, advanced, events, leader, line, partition, recorded, short, skipped


def rows(*lines, **settings):
    told = events(leader(thread="metadata"), *lines, **settings)[1:]
    return short(told, "ts", "replica_id", "leo", "leader_leo", "hw")


def test_a_fetch_that_moves_the_hw_is_told_first_at_the_time_of_its_first_line():
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
    told = rows(
        advanced(0, 5, ms=20), line(partition(progress, "other-0"), ms=22), recorded(2, 5, ms=70), recorded(3, 5, ms=80)
    )
    assert [(kind, ts) for kind, ts, *_ in told] == [("fetch", 20), ("hw", 20), ("fetch", 80)]


def test_the_leos_printed_by_a_fetch_come_after_it_and_give_it_the_leaders():
    assert rows(skipped({2: 5, 3: 4, 1: 6}, ms=10), recorded(2, 5, ms=12)) == [
        ("fetch", 10, 2, 5, 6, None),
        ("append", 10, None, None, 6, None),
        ("replica_leo", 10, 3, 4, None, None),
    ]


def test_a_hw_that_no_fetch_follows_was_moved_by_an_append_or_an_isr_change():
    told = rows(advanced(0, 5, ms=10), recorded(2, 3, ms=11), recorded(3, 9, name="orders-2", ms=12))
    assert ("hw", 10, 1, None, None, 5) in told
    assert ("fetch", 11, 2, 3, None, None) in told


def test_a_fetch_below_the_hw_did_not_move_it():
    assert [kind for kind, *_ in rows(advanced(0, 5, ms=10), recorded(2, 4, ms=11))] == ["hw", "fetch"]


def test_a_fetch_more_than_half_a_second_later_is_another():
    assert [kind for kind, *_ in rows(advanced(0, 5, ms=10), recorded(2, 5, ms=511))] == ["hw", "fetch"]
    assert [kind for kind, *_ in rows(advanced(0, 5, ms=10), recorded(2, 5, ms=510))] == ["fetch", "hw"]


def test_a_fetch_that_makes_a_replica_eligible_precedes_the_proposal_it_triggers():
    proposal = (
        "Submitting ISR state change PendingExpandIsr(newInSyncReplicaId=2, sentLeaderAndIsr=LeaderAndIsr(leader=1, "
        "leaderEpoch=2, isrWithBrokerEpoch=[BrokerState(brokerId=3, brokerEpoch=9), BrokerState(brokerId=2, "
        "brokerEpoch=8)], leaderRecoveryState=RECOVERED, partitionEpoch=3), leaderRecoveryState=RECOVERED, "
        "lastCommittedState=CommittedPartitionState(isr=Set(3), leaderRecoveryState=RECOVERED))"
    )
    sending = line("Sending AlterPartition to controller AlterPartitionRequestData()", "x.AlterPartitionManager", ms=12)
    told = rows(line(partition(proposal), ms=10), sending, advanced(0, 5, ms=13), recorded(2, 5, ms=14))
    assert [(kind, ts) for kind, ts, *_ in told] == [("fetch", 10), ("hw", 10), ("isr_proposed", 10)]


def test_an_equal_hw_only_tells_of_a_rolled_segment():
    assert [kind for kind, *_ in rows(advanced(5, 5, ms=10), recorded(2, 5, ms=11))] == ["fetch"]


def test_the_stock_pattern_pairs_by_nearness():
    def stock(text, ms):
        message = text.split("|", 4)[4].rstrip("\n")
        return f"[2026-11-21 01:27:06,{ms:03d}] DEBUG {message} ({PARTITION})\n"

    told = rows(
        stock(advanced(0, 5), 20), stock(recorded(3, 9, name="orders-2"), 21), stock(recorded(2, 5), 22), broker_id=1
    )
    assert [(kind, ts) for kind, ts, *_ in told] == [("fetch", 20), ("hw", 20), ("fetch", 21)]


def test_no_append_is_invented_while_the_leader_is_alone():
    assert rows(advanced(0, 5, ms=10)) == [("hw", 10, 1, None, None, 5)]


def test_leos_printed_by_an_append_do_not_belong_to_a_later_fetch_of_the_same_thread():
    """Seen on a real cluster: the next fetch of that thread came 212 ms and two records later."""
    told = rows(skipped({2: 8, 3: 5, 1: 9}, ms=10), recorded(2, 11, ms=222))
    assert [row for row in told if row[0] in ("append", "fetch")] == [
        ("append", 10, None, None, 9, None),
        ("fetch", 222, 2, 11, None, None),
    ]
