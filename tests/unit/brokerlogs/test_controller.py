"""The controller's log: elections, ISR changes, broker states and settings, a line in and its events out."""

import pytest

from tests.unit.brokerlogs.log_lines import CONTROLLER, ID, events, line, recorded, short

CLUSTER = "org.apache.kafka.controller.ClusterControlManager"
HEARTBEAT = "org.apache.kafka.controller.BrokerHeartbeatManager"
CONFIGURATION = "org.apache.kafka.controller.ConfigurationControlManager"
NEW = (
    f"Replayed PartitionRecord for new partition or.d-ers-1 with topic ID {ID} and "
    "PartitionRegistration(replicas=[3, 1, 2], directories=[a, b, c], isr=[3, 1, 2], "
    "removingReplicas=[], addingReplicas=[], elr=[], lastKnownElr=[], leader=3, "
    "leaderRecoveryState=RECOVERED, leaderEpoch=0, partitionEpoch=0)."
)


def said(message, logger=CONTROLLER, **at):
    return line(f"[QuorumController id=2] {message}", logger, **at)


def change(what, unclean=False):
    return said(f"{'UNCLEAN ' if unclean else ''}partition change for or.d-ers-1 with topic ID {ID}: {what}")


def record(isr="null", leader=-2, replicas="null", recovery=-1):
    return said(
        f"Replayed partition change PartitionChangeRecord(partitionId=1, topicId={ID}, isr={isr}, leader={leader}, "
        f"replicas={replicas}, removingReplicas=null, addingReplicas=null, leaderRecoveryState={recovery}, "
        "directories=null, eligibleLeaderReplicas=null, lastKnownElr=null) for topic or.d-ers"
    )


def reported(*lines):
    columns = ("leader_id", "leader_epoch", "partition_epoch", "isr", "unclean")
    return short(events(*lines), *columns)


def test_a_new_partition_is_elected_its_first_leader():
    (row,) = events(said(NEW))
    assert row == {
        "ts": 0,
        "broker_id": 2,
        "event_type": "election",
        "topic": "or.d-ers",
        "topic_id": ID,
        "partition": 1,
        "leader_id": 3,
        "leader_epoch": 0,
        "partition_epoch": 0,
        "isr": [3, 1, 2],
        "replicas": [3, 1, 2],
        "unclean": False,
        "level": 0,
    }


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param(
            [change("isr: [3, 1, 2] -> [3, 2], partitionEpoch: 0 -> 1")],
            [("isr", None, None, 1, [3, 2], None)],
            id="an ISR change of which nothing else is known",
        ),
        pytest.param(
            [change("isr: [1, 2, 3] -> [2, 3], leader: 1 -> 2, leaderEpoch: 0 -> 1, partitionEpoch: 0 -> 1")],
            [("election", 2, 1, 1, [2, 3], None), ("isr", 2, 1, 1, [2, 3], None)],
            id="a new leader",
        ),
        pytest.param(
            [
                change(
                    "isr: [1] -> [], leader: 3 -> -1, leaderEpoch: 0 -> 1, elr: [2] -> [2, 3], partitionEpoch: 6 -> 7"
                )
            ],
            [("election", -1, 1, 7, [], None), ("isr", -1, 1, 7, [], None)],
            id="nobody leads, the ISR is empty",
        ),
        pytest.param(
            [said(NEW), change("leader: 3 -> -1, leaderEpoch: 0 -> 1, partitionEpoch: 0 -> 1")],
            [("election", 3, 0, 0, [3, 1, 2], False), ("election", -1, 1, 1, [3, 1, 2], None)],
            id="nobody leads, the ISR stays",
        ),
        pytest.param(
            [
                change(
                    "isr: [1] -> [2], leader: 1 -> 2, leaderRecoveryState: RECOVERED -> RECOVERING, "
                    "leaderEpoch: 0 -> 1, partitionEpoch: 1 -> 2",
                    unclean=True,
                )
            ],
            [("election", 2, 1, 2, [2], True), ("isr", 2, 1, 2, [2], True)],
            id="an unclean election",
        ),
        pytest.param(
            [change("isr: [2] -> [2, 1], leaderRecoveryState: RECOVERING -> RECOVERED, partitionEpoch: 2 -> 3")],
            [("isr", None, None, 3, [2, 1], False)],
            id="recovered",
        ),
        pytest.param(
            [said(NEW), change("isr: [3, 1, 2] -> [3, 2], partitionEpoch: 0 -> 1"), record("[3, 2]")],
            [("election", 3, 0, 0, [3, 1, 2], False), ("isr", 3, 0, 1, [3, 2], None)],
            id="the record repeats the change",
        ),
        pytest.param(
            [said(NEW), record("[3, 2]"), record("[2]", leader=2, recovery=1)],
            [
                ("election", 3, 0, 0, [3, 1, 2], False),
                ("isr", 3, 0, 1, [3, 2], None),
                ("election", 2, 1, 2, [2], True),
                ("isr", 2, 1, 2, [2], True),
            ],
            id="records alone, epochs counted from the registration",
        ),
        pytest.param([record("[3, 2]")], [], id="a record without a registration has no epochs"),
        pytest.param(
            [said(NEW), record("[3, 2]"), said(NEW), record("[3, 2]")],
            [
                ("election", 3, 0, 0, [3, 1, 2], False),
                ("isr", 3, 0, 1, [3, 2], None),
                ("election", 3, 0, 0, [3, 1, 2], False),
                ("isr", 3, 0, 1, [3, 2], None),
            ],
            id="a replay is reported again with its old epochs",
        ),
    ],
)
def test_partition_changes(lines, expected):
    assert reported(*lines) == expected


REGISTRATION = (
    "Replayed BrokerRegistrationChangeRecord modifying the registration for broker 3: BrokerRegistrationChangeRecord"
)
REGISTERED = (
    "RegisterBrokerRecord(brokerId=3, isMigratingZkBroker=false, incarnationId=kAZ, brokerEpoch=96, fenced=true)"
)


@pytest.mark.parametrize(
    ("message", "logger", "state", "epoch"),
    [
        (f"Replayed initial RegisterBrokerRecord for broker 3: {REGISTERED}", CLUSTER, "started", 96),
        (
            f"Replayed RegisterBrokerRecord establishing a new incarnation of broker 3: {REGISTERED}",
            CLUSTER,
            "started",
            96,
        ),
        (
            f"{REGISTRATION}(brokerId=3, brokerEpoch=8, fenced=-1, inControlledShutdown=0, logDirs=[])",
            CLUSTER,
            "unfenced",
            8,
        ),
        (
            f"{REGISTRATION}(brokerId=3, brokerEpoch=8, fenced=1, inControlledShutdown=0, logDirs=[])",
            CLUSTER,
            "fenced",
            8,
        ),
        (
            f"{REGISTRATION}(brokerId=3, brokerEpoch=8, fenced=0, inControlledShutdown=1, logDirs=[])",
            CLUSTER,
            "controlled_shutdown",
            8,
        ),
        ("Fencing broker 3 at epoch 10 because its session has timed out.", CONTROLLER, "fenced", 10),
        (
            "Unfenced broker 3 has requested and been granted a controlled shutdown.",
            HEARTBEAT,
            "controlled_shutdown",
            None,
        ),
        ("Replayed UnregisterBrokerRecord(brokerId=3, brokerEpoch=12)", CLUSTER, "unregistered", 12),
    ],
)
def test_broker_states(message, logger, state, epoch):
    (row,) = events(said(message, logger))
    assert (row["event_type"], row["replica_id"], row["detail"]) == ("broker_state", 3, state)
    assert (row.get("broker_epoch"), row["partition"], row["broker_id"]) == (epoch, -1, 2)


def test_a_broker_prints_that_it_started_and_was_unfenced():
    lifecycle = "org.apache.kafka.server.BrokerLifecycleManager"
    lines = [
        line("[BrokerLifecycleManager id=2] Successfully registered broker 2 with broker epoch 1832", lifecycle),
        line(
            "[BrokerLifecycleManager id=2] The broker has been unfenced. Transitioning from RECOVERY to RUNNING.",
            lifecycle,
        ),
    ]
    assert short(events(*lines), "replica_id", "broker_epoch", "detail") == [
        ("broker_state", 2, 1832, "started"),
        ("broker_state", 2, 1832, "unfenced"),
    ]


def test_the_epoch_of_a_stopping_broker_is_that_of_its_registration():
    stopping = said("Unfenced broker 3 has requested and been granted a controlled shutdown.", HEARTBEAT)
    rows = events(said(f"Replayed initial RegisterBrokerRecord for broker 3: {REGISTERED}", CLUSTER), stopping)
    assert rows[1]["broker_epoch"] == 96


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        ("type=TOPIC, name='or.d-ers'", [("config", "or.d-ers", -1, 2)]),
        ("type=BROKER, name=''", [("config", None, -1, 2)]),
        ("type=BROKER, name='3'", []),
    ],
)
def test_settings(resource, expected):
    words = f"Replayed ConfigRecord for ConfigResource({resource}) which set configuration"
    rows = events(said(f"{words} min.insync.replicas to 2", CONFIGURATION))
    assert short(rows, "topic", "partition", "min_isr") == expected
    assert events(said(f"{words} retention.ms to 2", CONFIGURATION)) == []


def test_a_topic_is_not_mistaken_for_a_partition_of_its_name():
    resource = "ConfigResource(type=TOPIC, name='a-0')"
    config = f"Replayed ConfigRecord for {resource} which set configuration min.insync.replicas to 2"
    rows = events(recorded(2, 1, name="a-0"), said(config, CONFIGURATION))
    assert short(rows, "topic", "partition") == [("fetch", "a", 0), ("config", "a-0", -1)]


@pytest.mark.parametrize("words", ["Replayed RemoveTopicRecord for topic", "Removed topic"])
def test_a_topic_that_is_deleted(words):
    """Kafka 3.6 and later, and 3.0 to 3.5: in the words of 4.1.1 and 3.3.2."""
    deleted = said(f"{words} a-7 with ID {ID}.")
    fields = ("topic", "topic_id", "partition", "detail")
    assert short(events(deleted), *fields) == [("config", "a-7", ID, -1, "topic=deleted")]


def test_topics_that_a_controller_with_zookeeper_deletes():
    """In the words of 3.6.2, as it begins: it ends once all replicas are back. They have no ids there."""
    deleted = line("[Controller id=1] Starting topic deletion for topics alone,t-1", "kafka.controller.KafkaController")
    fields = ("topic", "topic_id", "partition", "detail", "committed")
    assert short(events(deleted), *fields) == [
        ("config", "alone", None, -1, "topic=deleted", True),
        ("config", "t-1", None, -1, "topic=deleted", True),
    ]
