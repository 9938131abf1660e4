"""Terms, ISR changes and cuts, one shape at a time: a line in, its events out."""

import pytest

from tests.unit.brokerlogs.log_lines import (
    ALTER,
    FETCHER,
    ID,
    LOG,
    PARTITION,
    STATE,
    events,
    leader,
    line,
    partition,
    recorded,
    short,
)

FOLLOWER = (
    "[Broker id=1] Follower orders-0 starts at leader epoch 2 from offset 12 with partition epoch 5 and high watermark "
    "11. Current leader is {}. Previous leader Some(3) and previous leader epoch was 1."
)
SKIPPED_CHANGE = (
    "[Broker id=1] Skipped the become-{role} state change for {tp} with topic id Some(" + ID + ") and partition state "
    "LeaderAndIsrPartitionState(topicName='x', partitionIndex=1, controllerEpoch=-1, leader=1, leaderEpoch=2, "
    "isr=[3, 1, 2], partitionEpoch=4, replicas=[1, 2, 3], addingReplicas=[], removingReplicas=[], isNew=false, "
    "leaderRecoveryState=0) since it is already the {role} with leader epoch 2. "
    "Current high watermark 919, ISR [3,1,2]."
)
SENT = (
    "sentLeaderAndIsr=LeaderAndIsr(leader=1, leaderEpoch=2, isrWithBrokerEpoch={}, leaderRecoveryState=RECOVERED, "
    "partitionEpoch=3), leaderRecoveryState=RECOVERED, lastCommittedState=CommittedPartitionState(isr=Set(3, 1), "
    "leaderRecoveryState=RECOVERED))"
)
BROKERS = ", ".join(
    f"BrokerState(brokerId={broker}, brokerEpoch={epoch})" for broker, epoch in ((3, 9), (1, 96), (2, -1))
)
EXPAND = "PendingExpandIsr(newInSyncReplicaId=2, " + SENT
SHRINK = "PendingShrinkIsr(outOfSyncReplicaIds=Set(2), " + SENT
SHRINKING = (
    "Shrinking ISR from 1,2,3 to 1,2. Leader: (highWatermark: 158, endOffset: 159). Out of sync replicas: "
    "(brokerId: 3, endOffset: 158, lastCaughtUpTimeMs: 1795224366014)."
)


def one(*lines, **settings):
    (row,) = events(*lines, **settings)
    for column in ("ts", "level", "broker_id"):
        del row[column]
    return row


def test_leader():
    assert one(leader(leo=717, hw=700, isr="3,1", epoch=2)) == {
        "event_type": "leader",
        "topic": "orders",
        "partition": 1,
        "topic_id": ID,
        "leader_id": 1,
        "replica_id": 1,
        "leader_epoch": 2,
        "partition_epoch": 2,
        "leo": 717,
        "leader_leo": 717,
        "hw": 700,
        "isr": [3, 1],
    }


def test_a_leader_marked_as_recovering_was_elected_uncleanly():
    mark = (
        "[Broker id=1] The topic partition orders-1 was marked as RECOVERING. Marking the topic partition as RECOVERED."
    )
    rows = events(line(mark, STATE), leader(), leader(epoch=1, ms=5))
    assert short(rows, "unclean") == [("leader", True), ("leader", None)]


@pytest.mark.parametrize("current", [3, -1])
def test_follower(current):
    assert one(line(FOLLOWER.format(current), STATE)) == {
        "event_type": "follower",
        "topic": "orders",
        "partition": 0,
        "leader_id": current,
        "replica_id": 1,
        "leader_epoch": 2,
        "partition_epoch": 5,
        "leo": 12,
        "hw": 11,
    }


def test_the_id_of_a_created_partition_is_known_afterwards():
    creating = line(f"[Broker id=1] Creating new partition orders-0 with topic id {ID}.", STATE)
    assert one(creating, line(FOLLOWER.format(3), STATE))["topic_id"] == ID


@pytest.mark.parametrize(("role", "hw"), [("leader", 919), ("follower", None)])
def test_an_isr_committed_through_metadata(role, hw):
    row = one(line(SKIPPED_CHANGE.format(role=role, tp="orders-1"), STATE))
    assert row.pop("hw", None) == hw
    assert row == {
        "event_type": "isr",
        "detail": "metadata",
        "topic": "orders",
        "partition": 1,
        "topic_id": ID,
        "leader_id": 1,
        "leader_epoch": 2,
        "partition_epoch": 4,
        "isr": [3, 1, 2],
        "replicas": [1, 2, 3],
        "unclean": False,
    }


@pytest.mark.parametrize("words", ["3,1,2  and", "3,1,2 (under-min-isr) and"])
def test_an_isr_committed_through_the_answer(words):
    row = one(line(partition(f"ISR updated to {words} version updated to 4")))
    assert (row["event_type"], row["detail"], row["isr"], row["partition_epoch"]) == (
        "isr",
        "alter_partition",
        [3, 1, 2],
        4,
    )


@pytest.mark.parametrize("logger", [ALTER, "org.apache.kafka.server.partition.DefaultAlterPartitionManager"])
def test_the_manager_is_a_third_witness_where_the_topic_is_known(logger):
    handled = line(
        f"Controller successfully handled AlterPartition request for {ID}:1: PartitionData(partitionIndex=1, "
        "errorCode=0, leaderId=1, leaderEpoch=2, isr=[3, 1, 2], leaderRecoveryState=0, partitionEpoch=4)",
        logger,
    )
    assert events(handled, broker_id=1) == []
    row = events(leader(), handled)[1]
    assert (row["detail"], row["isr"], row["partition_epoch"], row["topic"]) == (
        "alter_partition",
        [3, 1, 2],
        4,
        "orders",
    )


@pytest.mark.parametrize("brokers", [f"[{BROKERS}]", f"List({BROKERS})"])
@pytest.mark.parametrize(("change", "detail"), [(EXPAND, "expand"), (SHRINK, "shrink")])
def test_a_proposal(brokers, change, detail):
    row = one(line(partition("Submitting ISR state change " + change.format(brokers))))
    assert (row["event_type"], row["detail"], row["isr"]) == ("isr_proposed", detail, [3, 1, 2])


def test_one_proposal_printed_at_two_levels_counts_once():
    debug = line(
        partition("Submitting ISR state change " + SHRINK.format("[BrokerState(brokerId=1), BrokerState(brokerId=2)]"))
    )
    rows = events(leader(leo=159, hw=158), recorded(3, 158), line(partition(SHRINKING), ms=9), debug)
    assert short(rows, "isr")[2:] == [("isr_proposed", [1, 2])]
    committed = line(partition("ISR updated to 1,2  and version updated to 4"))
    assert [kind for kind, *_ in short(events(debug, committed, debug))] == ["isr_proposed", "isr", "isr_proposed"]


def test_a_shrink_at_info_has_the_offsets_that_no_other_line_had():
    rows = events(leader(), line(partition(SHRINKING), ms=9))
    assert short(rows, "replica_id", "leo", "leader_leo", "hw")[1:] == [
        ("append", None, None, 159, None),
        ("replica_leo", 3, 158, None, None),
        ("hw", 1, None, None, 158),
        ("isr_proposed", None, None, None, None),
    ]


def test_a_rejection_undoes_the_proposal():
    words = (
        f"Failed to alter partition to {EXPAND.format('List(' + BROKERS + ')')} since the controller rejected "
        "the request with INELIGIBLE_REPLICA. Partition state has been reset to the latest committed state "
        "CommittedPartitionState(isr=Set(3, 1), leaderRecoveryState=RECOVERED)."
    )
    row = one(line(partition(words)))
    assert (row["event_type"], row["isr"], row["detail"]) == ("isr_rejected", [3, 1], "INELIGIBLE_REPLICA")


def test_an_ignored_answer_is_no_rejection():
    words = f"Ignoring failed ISR update to {EXPAND} since we have already updated state to CommittedPartitionState()"
    assert events(line(partition(words))) == []


def fetcher(message, **at):
    return line(f"[ReplicaFetcher replicaId=1, leaderId=2, fetcherId=0] {message}", FETCHER, **at)


def log(message, **at):
    return line(f"[UnifiedLog partition=orders-1, dir=/d] {message}", LOG, **at)


CUT = fetcher(
    "Truncating partition orders-1 with TruncationState(offset=120, completed=true) due to leader epoch and offset E"
)


@pytest.mark.parametrize(
    ("lines", "at"),
    [
        pytest.param([CUT, log("Truncating to offset 120", ms=3)], [3], id="the log layer says that it cut"),
        pytest.param(
            [CUT, log("Truncating to 120 has no effect as the largest offset in the log is 99", ms=3)], [], id="no cut"
        ),
        pytest.param([CUT], [0], id="the log layer is not logged"),
        pytest.param([CUT, log("Truncating to offset 7", ms=600)], [0, 600], id="another cut later"),
    ],
)
def test_truncations(lines, at):
    rows = events(*lines, fetcher("Shutting down", ms=2000), broker_id=1)
    assert [row["ts"] for row in rows] == at
    assert {row["event_type"] for row in rows} <= {"truncate"}
    assert {(row["replica_id"], row["topic"], row["partition"]) for row in rows} <= {(1, "orders", 1)}


def test_a_follower_hw_that_falls():
    row = one(
        log("Non-monotonic update of high watermark from (offset=230, segment=[-1:-1]) to (offset=120, segment=[0:9])"),
        broker_id=4,
    )
    assert (row["event_type"], row["replica_id"], row["hw_before"], row["hw"]) == ("hw", 4, 230, 120)


MANAGER = "kafka.log.LogManager"
FUTURE = "Created log for partition orders-1 in /d/b/orders-1.5f0c5ad33e2c4c8f-future with properties {}"
REPLACED = "The current replica is successfully replaced with the future replica for orders-1"
FELL = "Non-monotonic update of high watermark from (offset=1000, segment=[1000:0]) to (offset=943, segment=[943:0])"


def in_directory(directory, message, ms=0):
    return line(f"[UnifiedLog partition=orders-1, dir={directory}] {message}", LOG, ms=ms)


@pytest.mark.parametrize("message", [FELL, "Truncate and start at offset 990", "Truncating to offset 990"])
def test_the_future_log_of_a_replica_that_is_moved_is_not_the_replica(message):
    """As Kafka 4.1 prints a move to another log directory; the leader's own log stays as it is."""
    moving, moved = line(FUTURE, MANAGER), line(REPLACED, MANAGER, ms=20)
    of_future = in_directory("/d/b", message, ms=10)
    assert events(moving, of_future, moved, broker_id=1) == []
    assert [row["ts"] for row in events(moving, in_directory("/d/a", message, ms=10), broker_id=1)] == [10], "its own"
    after = in_directory("/d/b", message, ms=30)
    assert [row["ts"] for row in events(moving, of_future, moved, after, broker_id=1)] == [30]


def test_what_the_thread_of_a_move_prints_is_of_the_future_log():
    """Where the line with which the move began is in another file."""
    message = f"[UnifiedLog partition=orders-1, dir=/d/b] {FELL}"
    assert events(line(message, LOG, thread="ReplicaAlterLogDirsThread-1"), broker_id=1) == []
    assert len(events(line(message, LOG, thread="ReplicaFetcherThread-0-2"), broker_id=1)) == 1


@pytest.mark.parametrize("message", [FELL, "Truncate and start at offset 990", "Truncating to offset 990"])
def test_a_leader_cuts_no_log_of_its_own(message):
    """Where the line is missing with which the move to another log directory began."""
    leads, cut = leader(leo=4900, hw=4900, isr="1,2"), in_directory("/d/b", message, ms=5)
    assert [row["event_type"] for row in events(leads, cut)] == ["leader"]
    follows = line(FOLLOWER.format(2).replace("orders-0", "orders-1"), STATE, ms=3)
    assert [row["ts"] for row in events(leads, follows, cut)] == [0, 3, 5]


def test_a_follower_hw_that_was_updated():
    received = "Follower received high watermark 100 from the leader"
    row = one(fetcher(f"{received} and updated replica high watermark to 99 for partition orders-1"))
    assert (row["event_type"], row["replica_id"], row["leader_id"], row["hw"]) == ("hw", 1, 2, 99)
    assert "hw_before" not in row, "a follower prints no old value"
    assert events(fetcher(f"{received} but did not update replica high watermark for partition orders-1")) == []


@pytest.mark.parametrize(
    ("name", "topic", "number"),
    [
        ("a-b.c_d-12", "a-b.c_d", 12),
        ("1-2", "1", 2),
        ("__consumer_offsets-0", "__consumer_offsets", 0),
        ("x--3", "x-", 3),
    ],
)
def test_the_partition_is_what_follows_the_last_hyphen(name, topic, number):
    row = one(recorded(2, 1, name=name))
    assert (row["topic"], row["partition"]) == (topic, number)


def test_internal_topics_are_left_out_on_demand_and_the_metadata_log_always():
    lines = [recorded(2, 1, name=name) for name in ("__consumer_offsets-0", "orders-0", "__cluster_metadata-0")]
    assert [row["topic"] for row in events(*lines)] == ["__consumer_offsets", "orders"]
    assert [row["topic"] for row in events(*lines, internal_topics=False)] == ["orders"]


def test_a_broker_that_no_line_names_has_no_rows():
    cut = line("[UnifiedLog partition=orders-1, dir=/d] Truncating to offset 7", LOG)
    assert events(cut) == []
    assert [row["broker_id"] for row in events(recorded(2, 1, name="a-0"), cut)] == [1, 1]


def test_the_logger_may_have_any_prefix():
    assert [r["event_type"] for r in events(recorded(2, 1).replace(PARTITION, "org.x.cluster.Partition"))] == ["fetch"]
