"""What versions of Kafka word differently, on recordings of Kafka 3.9.1 and 4.4.0."""

import pytest

from tests.unit.brokerlogs.log_lines import (
    ALTER,
    CONTROLLER,
    FETCHER,
    ID,
    LOG,
    STATE,
    events,
    leader,
    line,
    partition,
    short,
)
from tests.unit.brokerlogs.recorded import isr_changes, rows

REGISTRATION = (
    "replicas=[1, 2, 3], directories=[AAAAAAAAAAAAAAAAAAAAAQ, AAAAAAAAAAAAAAAAAAAAAQ, AAAAAAAAAAAAAAAAAAAAAQ], "
    "isr=[1, 3], removingReplicas=[], addingReplicas=[], elr=[2], lastKnownElr=[], leader=1, "
    "leaderRecoveryState={state}, leaderEpoch=5, partitionEpoch=9"
)
SKIPPED = (
    "[Broker id=1] Skipped the become-{role} state change for orders-1 with topic id Some(" + ID + "), partition "
    "registration PartitionRegistration(" + REGISTRATION + ") and isNew=false since "
)
HEARTBEAT = "org.apache.kafka.controller.BrokerHeartbeatManager"


def of_controller(message, logger=CONTROLLER):
    return line(f"[QuorumController id=2] {message}", logger)


REGISTERED = "RegisterBrokerRecord(brokerId=3, incarnationId=x, brokerEpoch=11, endPoints=[], rack=null, fenced=true)"
OLDER_QUORUMS = {
    f"Created partition a-7-1 with topic ID {ID} and PartitionRegistration(replicas=[1, 3], isr=[1, 3], "
    "removingReplicas=[], addingReplicas=[], leader=1, leaderEpoch=0, partitionEpoch=0).": (
        "ReplicationControlManager", [("election", "a-7", 1)],
    ),
    f"Created topic a-7 with topic ID {ID}.": ("ReplicationControlManager", []),
    f"Removed topic a-7 with ID {ID}.": ("ReplicationControlManager", [("config", "a-7", -1)]),
    f"Registered new broker: {REGISTERED}": ("ClusterControlManager", [("broker_state", "started", 3)]),
    f"Re-registered broker incarnation: {REGISTERED}": ("ClusterControlManager", [("broker_state", "started", 3)]),
    f"Re-registered broker id 3: {REGISTERED}": ("ClusterControlManager", [("broker_state", "started", 3)]),
    "Fenced broker: FenceBrokerRecord(id=3, epoch=11)": ("ClusterControlManager", [("broker_state", "fenced", 3)]),
    "Unfenced broker: UnfenceBrokerRecord(id=3, epoch=11)": (
        "ClusterControlManager", [("broker_state", "unfenced", 3)],
    ),
    "ConfigResource(type=TOPIC, name='a-7'): set configuration min.insync.replicas to 2": (
        "ConfigurationControlManager", [("config", "a-7", -1)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("words", OLDER_QUORUMS)
def test_controllers_of_kafka_3_0_to_3_5_are_read_and_name_themselves(words):
    logger, told = OLDER_QUORUMS[words]
    found = events(line(f"[Controller 9] {words}", f"org.apache.kafka.controller.{logger}"))
    fields = {"broker_state": ("detail", "replica_id")}
    assert [
        (r["event_type"], *(r[f] for f in fields.get(r["event_type"], ("topic", "partition")))) for r in found
    ] == told
    assert {row["broker_id"] for row in found} <= {9}


def test_an_unclean_election_of_kafka_0_10_and_1_0_is_no_silence():
    words = "No broker in ISR is alive for a-1. Elect leader 2 from live brokers 2. There's potential data loss."
    logger = "kafka.controller.OfflinePartitionLeaderSelector"
    found = events(leader(), line(f"[OfflinePartitionLeaderSelector]: {words}", logger))
    assert [row["detail"][:60] for row in found if row["event_type"] == "lost"] == [
        "not understood: [OfflinePartitionLeaderSelector]: No broker i"[:60]
    ]


def test_a_log_that_names_its_topic_id_is_that_partition_s():
    cut = line("[MergedLog partition=a-1, topicId=x, dir=/d] Truncating to offset 7", "kafka.log.MergedLog")
    assert [(row["event_type"], row["topic"], row["leo"]) for row in events(leader(), cut)][1:] == [
        ("truncate", "a", 7)
    ]


@pytest.mark.parametrize(("role", "hw"), [("leader", 919), ("follower", None)])
@pytest.mark.parametrize(("state", "unclean"), [("RECOVERED", False), ("RECOVERING", True)])
def test_kafka_4_4_prints_a_registration_where_others_print_a_leader_and_isr(role, hw, state, unclean):
    why = f"it is already the {role} with leader epoch 5. Current high watermark 919, ISR [1,3]."
    (row,) = events(line(SKIPPED.format(role=role, state=state) + why, STATE))
    assert (row["event_type"], row["detail"], row.get("hw"), row["unclean"]) == ("isr", "metadata", hw, unclean)
    assert (row["leader_id"], row["leader_epoch"], row["partition_epoch"]) == (1, 5, 9)
    assert (row["isr"], row["replicas"], row["topic_id"]) == ([1, 3], [1, 2, 3], ID)


@pytest.mark.parametrize(
    "why",
    [
        "the leader is already at a newer partition epoch 10.",
        "the follower is already at a newer partition epoch 10.",
    ],
)
def test_older_metadata_than_the_broker_has_is_no_isr_change(why):
    stale = line(SKIPPED.format(role="leader", state="RECOVERED") + why, STATE)
    assert [kind for kind, *_ in short(events(leader(), stale))] == ["leader"]


def test_kafka_4_4_prints_epochs_after_the_topic_of_a_replayed_change():
    new = of_controller(
        f"Replayed PartitionRecord for new partition a.-1 with topic ID {ID} and PartitionRegistration("
        + REGISTRATION.format(state="RECOVERED")
        + ")."
    )
    record = (
        f"Replayed partition change PartitionChangeRecord(partitionId=1, topicId={ID}, isr=[1], leader=-2, "
        "replicas=null, removingReplicas=null, addingReplicas=null, leaderRecoveryState=-1, directories=null, "
        "eligibleLeaderReplicas=null, lastKnownElr=null) for topic a."
    )
    older = events(new, of_controller(record))
    later = events(
        new, of_controller(f"{record}. (isr: [1, 3] -> [1], replicaSet: [1, 3] -> [1, 3], partitionEpoch: 10)")
    )
    assert older == later
    assert short(later, "topic", "partition_epoch", "isr")[1:] == [("isr", "a.", 10, [1])]


@pytest.mark.parametrize(
    "words",
    [
        "Node 1 has altered ISR for orders-1 to [3, 1, 2].",
        "Node 1 has altered ISR for orders-1. isr: [3] -> [3, 1], replicaSet: [3, 1] -> [3, 1], partitionEpoch: 0 -> 1",
    ],
)
def test_an_altered_isr_comes_from_the_change_that_the_controller_replays(words):
    assert events(of_controller(words)) == []


def test_kafka_3_9_names_the_topic_in_an_answer():
    handled = line(
        "Controller successfully handled AlterPartition request for or.d-ers-1: PartitionData(partitionIndex=1, "
        "errorCode=0, leaderId=1, leaderEpoch=2, isr=[3, 1], leaderRecoveryState=0, partitionEpoch=4)",
        ALTER,
    )
    (row,) = events(handled, broker_id=1)
    assert (row["event_type"], row["topic"], row["partition"], row["isr"]) == ("isr", "or.d-ers", 1, [3, 1])
    assert (row["leader_epoch"], row["partition_epoch"], row["detail"]) == (2, 4, "alter_partition")


def test_a_refused_answer_is_no_isr():
    refused = line(
        "Controller successfully handled AlterPartition request for orders-1: PartitionData(partitionIndex=1, "
        "errorCode=74, leaderId=1, leaderEpoch=2, isr=[3, 1], leaderRecoveryState=0, partitionEpoch=4)",
        ALTER,
    )
    assert events(refused, broker_id=1) == []


def test_kafka_3_9_fences_without_an_epoch_and_kafka_4_with_one():
    reported = "because its session has timed out."
    rows = events(
        of_controller(f"Fencing broker 3 {reported}"), of_controller(f"Fencing broker 3 at epoch 8 {reported}")
    )
    assert short(rows, "replica_id", "detail", "broker_epoch") == [
        ("broker_state", 3, "fenced", None),
        ("broker_state", 3, "fenced", 8),
    ]


@pytest.mark.parametrize("shutdown", ["a controlled shutdown", "an immediate shutdown"])
def test_a_broker_that_leads_nothing_is_let_go_at_once(shutdown):
    words = f"Unfenced broker 3 has requested and been granted {shutdown}."
    assert short(events(of_controller(words, HEARTBEAT)), "replica_id", "detail") == [
        ("broker_state", 3, "controlled_shutdown")
    ]


def test_kafka_4_4_brokers_print_every_isr_change_until_they_are_stopped():
    """What is changed while a broker stops comes to the others in one piece: they print the last of it."""
    dump = rows("unclean_election_44", "metadata.dump.gz")
    stopping = min(row["ts"] for row in dump if row["detail"] == "controlled_shutdown")
    brokers = isr_changes(rows("unclean_election_44", "broker-*/replication.log.gz"))
    assert isr_changes([row for row in dump if row["ts"] < stopping]) <= brokers
    assert brokers <= isr_changes(dump)
    assert isr_changes(rows("unclean_election_44", "broker-*/controller.log.gz")) == isr_changes(dump)


def test_kafka_3_9_brokers_and_controllers_print_the_same_isr_changes():
    reported = rows("stock39_lean", "broker-*/replication.log.gz")
    controller = isr_changes(
        [row for row in reported if row["detail"] == "controller" or row["event_type"] == "election"]
    )
    brokers = isr_changes(
        [row for row in reported if row["detail"] != "controller" and row["event_type"] != "election"]
    )
    assert brokers
    assert brokers <= controller
    answers = {(row["topic"], row["partition_epoch"]) for row in reported if row["detail"] == "alter_partition"}
    assert {topic for topic, _ in answers} == {"clicks", "orders"}


def test_an_old_and_a_new_shape_of_the_hw_lines_are_one():
    under = "Not increasing HWM because partition is under min ISR(ISR=Set(1)"
    assert events(line(partition(under))) == events(line(partition(f"{under})"))) == []


def test_leaders_up_to_kafka_2_3_print_fetches_without_log_starts_and_hws_without_the_one_before():
    hw, fetch = (
        "High watermark updated to (offset=107 segment=[0:9])",
        "Recorded replica 2 log end offset (LEO) position 107.",
    )
    rows = events(leader(leo=100, hw=100), line(partition(hw), ms=5), line(partition(fetch), ms=5))
    assert short(rows, "replica_id", "leo", "hw", "hw_before", "log_start")[1:] == [
        ("fetch", 2, 107, None, None, None), ("hw", 1, None, 107, None, None),
    ]  # fmt: skip
    cut = events(leader(leo=100, hw=100), line(partition(hw[:-3]), ms=5))
    assert [row["event_type"] for row in cut] == ["leader", "lost"]


def test_followers_up_to_kafka_3_3_print_their_hw_at_each_fetch():
    words = "[ReplicaFetcher replicaId=1, leaderId=2, fetcherId=0] Follower set replica high watermark for partition {}"
    (row,) = events(line(words.format("audit-log-3 to 55"), FETCHER))
    assert (row["event_type"], row["topic"], row["partition"], row["replica_id"], row["hw"]) == (
        "hw",
        "audit-log",
        3,
        1,
        55,
    )
    (row,) = events(line(words.format("audit-log-3"), FETCHER))
    assert row["event_type"] == "lost"


SENT = (
    "[Controller id=1 epoch=3] Sending become-follower LeaderAndIsr request PartitionState(controllerEpoch=3, "
    "leader={}, leaderEpoch={}, isr=2, zkVersion=7, replicas=1,2, isNew=false) to broker {} for partition orders-1"
)
SENT_2_4 = SENT.replace("PartitionState(", "LeaderAndIsrPartitionState(topicName='orders', partitionIndex=1, ").replace(
    "isr=2, zkVersion=7, replicas=1,2,",
    "isr=[2], zkVersion=7, replicas=[1, 2], addingReplicas=[], removingReplicas=[],",
)


@pytest.mark.parametrize("words", [SENT, SENT_2_4])
def test_what_a_controller_up_to_kafka_2_5_sends_shows_who_left_an_isr_and_that_nobody_leads(words):
    sent = ((1, 3, 1), (2, 4, 1), (2, 4, 2), (-1, 5, 1), (-1, 5, 2))
    rows = events(*(line(words.format(*what), STATE) for what in sent))
    assert short(rows, "leader_id", "leader_epoch", "isr", "partition_epoch", "replicas", "controller_epoch") == [
        ("isr", 2, 4, [2], 7, [1, 2], 3), ("isr", -1, 5, [2], 7, [1, 2], 3),
    ]  # fmt: skip


def test_what_a_controller_that_begins_sends_was_so_before():
    assert events(line(SENT.format(2, 4, 1), STATE), line(SENT.format(2, 4, 2), STATE)) == []


def test_what_a_controller_since_kafka_2_6_sends_was_told_before():
    removed = (
        "[Controller id=1 epoch=3] Partition orders-1 state changed to (Leader:2,ISR:2,LeaderEpoch:4,ZkVersion:7,"
        "ControllerEpoch:3) after removing replica 1 from the ISR as part of transition to OfflineReplica"
    )
    rows = events(line(removed, STATE), line(SENT_2_4.format(2, 4, 2), STATE))
    assert [row["event_type"] for row in rows] == ["election", "isr"]


def test_a_follower_beyond_the_end_of_its_leaders_log_cuts_its_own_there():
    words = "Reset fetch offset for partition orders-1 from 230 to current leader's latest offset 120"
    told = line(f"[ReplicaFetcher replicaId=1, leaderId=2, fetcherId=0] {words}", FETCHER)
    layer = line("[UnifiedLog partition=orders-1, dir=/d] Truncating to offset 120", LOG, ms=1)
    assert short(events(told, broker_id=1), "replica_id", "leo") == [("truncate", 1, 120)]
    assert short(events(told, layer, broker_id=1), "ts", "leo") == [("truncate", 1, 120)], "the log layer tells it, too"
