"""What a node of the quorum printed as the active controller, and what as a standby: only that is committed."""

from collections import Counter

import pytest

from generators.brokerlogs.parsing.parser import SourceParser
from tests.unit.brokerlogs.log_lines import CONTROLLER, ID, advanced, leader, line, plain, short
from tests.unit.brokerlogs.recorded import DUMPED, rows

QUORUM = "org.apache.kafka.controller.QuorumController"
HEARTBEAT = "org.apache.kafka.controller.BrokerHeartbeatManager"
CLUSTER = "org.apache.kafka.controller.ClusterControlManager"
CONFIGURATION = "org.apache.kafka.controller.ConfigurationControlManager"
LIFECYCLE = "kafka.server.BrokerLifecycleManager"
STARTING = "Creating new QuorumController with clusterId MkU3OEVBNTcwNTJENDM2Qg."
ACTIVE = "Becoming the active controller at epoch 4, next write offset 160."
STILL = "We were the leader in epoch 4, and are still the leader in the new epoch 5."
FOLLOWING = "In the new epoch 3, the leader is 2."
NOBODY = "In the new epoch 4, the leader is (none)."
DEPOSED = (
    "Renouncing the leadership due to a metadata log event. We were the leader at epoch 4, but in the new epoch 6, the "
    "leader is 2. Reverting to last stable offset 77."
)
FAILED = (
    "writeNoOpRecord: event failed with NotLeaderException (treated as NotControllerException) at epoch 4 in 406 "
    "microseconds. Renouncing leadership and reverting to the last committed offset 77. Exception message: x"
)
UP_TO_3_2 = (
    "Renouncing the leadership at oldEpoch 4 due to a metadata log event. Reverting to last committed offset 77."
)
FAILED_UP_TO_3_5 = (
    "registerBroker: failed with unknown server exception NullPointerException at epoch 4 in 406 us.  Renouncing "
    "leadership and reverting to the last committed offset 77."
)
FAILED_UP_TO_3_2 = FAILED_UP_TO_3_5.replace("Renouncing leadership and reverting to the", "Reverting to")
REFUSED = (
    "registerBroker: event failed with NotControllerException in 201 microseconds. Exception message: The active "
    "controller appears to be node 6."
)


def said(message, logger=CONTROLLER, **at):
    return line(f"[QuorumController id=1] {message}", logger, **at)


def change(epoch):
    reported = (
        f"partition change for orders-1 with topic ID {ID}: isr: [1, 2] -> [1], partitionEpoch: {epoch} -> {epoch + 1}"
    )
    return said(reported)


def roles(*lines, parser=None):
    parser = parser or SourceParser("c", "s")
    reported = plain(parser.feed("".join(lines).encode(), last=True))
    return [(row.get("committed"), row.get("controller_epoch")) for row in reported if row["event_type"] == "isr"]


@pytest.mark.parametrize(
    ("before", "committed", "epoch"),
    [
        pytest.param([], None, None, id="no line names the role"),
        pytest.param([STARTING], True, None, id="a node that starts is no active controller"),
        pytest.param([FOLLOWING], True, 3, id="a standby"),
        pytest.param([NOBODY], True, None, id="a standby of nobody"),
        pytest.param([ACTIVE], False, 4, id="the active controller"),
        pytest.param([ACTIVE, STILL], False, 5, id="it stays the active controller"),
        pytest.param([ACTIVE, DEPOSED], True, 6, id="deposed by the metadata log"),
        pytest.param([ACTIVE, FAILED], True, None, id="deposed by an event that failed"),
        *(pytest.param([ACTIVE, words], True, None) for words in (UP_TO_3_2, FAILED_UP_TO_3_5, FAILED_UP_TO_3_2)),
        pytest.param([ACTIVE, REFUSED], False, 4, id="a refused request deposes nobody"),
        pytest.param([ACTIVE, STARTING], True, None, id="started again"),
        pytest.param([FOLLOWING, NOBODY, ACTIVE], False, 4, id="elected"),
    ],
)
def test_a_change_is_committed_where_the_node_was_a_standby(before, committed, epoch):
    assert roles(*(said(words, QUORUM) for words in before), change(0)) == [(committed, epoch)]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (ACTIVE, [(1, False, 4)]),
        (STILL, [(1, False, 5)]),
        (FOLLOWING, [(2, True, 3)]),
        (DEPOSED, [(2, True, 6)]),
        *((words, []) for words in (NOBODY, STARTING, FAILED, UP_TO_3_2)),
    ],
)
def test_which_node_is_the_active_controller_is_told_as_the_node_learns_it(words, told):
    reported = plain(SourceParser("c", "broker-1/controller.log").feed(said(words, QUORUM).encode(), last=True))
    assert {row["detail"] for row in reported} <= {"controller=active"}
    assert short(reported, "replica_id", "committed", "controller_epoch") == [("config", *row) for row in told]


def test_every_row_of_a_controller_has_it():
    record = "RegisterBrokerRecord(brokerId=3, incarnationId=kAZ, brokerEpoch=96, rack='r1', fenced=true)"
    lines = [
        said(ACTIVE, QUORUM),
        said(f"Replayed initial RegisterBrokerRecord for broker 3: {record}", CLUSTER),
        said("Unfenced broker 3 has requested and been granted a controlled shutdown.", HEARTBEAT),
        said(
            "Replayed ConfigRecord for ConfigResource(type=BROKER, name='') which set configuration "
            "min.insync.replicas to 2",
            CONFIGURATION,
        ),
        said(
            "Replayed a FeatureLevelRecord setting metadata.version to 4.1-IV1", CLUSTER.replace("Cluster", "Feature")
        ),
        said(
            f"partition change for a-0 with topic ID {ID}: leader: 1 -> 2, leaderEpoch: 0 -> 1, partitionEpoch: 0 -> 1"
        ),
    ]
    reported = plain(SourceParser("c", "s").feed("".join(lines).encode(), last=True))
    assert Counter(row["event_type"] for row in reported) == {"broker_state": 2, "config": 4, "election": 1}
    assert {(row["committed"], row["controller_epoch"]) for row in reported} == {(False, 4)}


def test_what_a_broker_prints_of_itself_is_no_row_of_a_controller():
    lines = [
        said(ACTIVE, QUORUM),
        line("[BrokerLifecycleManager id=1] The broker has been unfenced.", LIFECYCLE),
        leader(),
    ]
    reported = plain(SourceParser("c", "s").feed("".join(lines).encode(), last=True))
    found = [(row["event_type"], "committed" in row) for row in reported]
    assert found == [("config", True), ("broker_state", False), ("leader", False)]


def test_the_role_is_not_known_after_a_gap_until_it_is_printed_again():
    gap = [said(FOLLOWING, QUORUM, sn=1), change(0).replace("|[Q", "|2|[Q")]
    later = [change(1).replace("|[Q", "|9|[Q"), said(ACTIVE, QUORUM, sn=10), change(2).replace("|[Q", "|11|[Q")]
    assert roles(*gap, *later) == [(True, 3), (None, None), (False, 4)]


def test_it_is_not_known_after_lines_that_the_reader_lost():
    parser = SourceParser("c", "s")
    assert roles(said(ACTIVE, QUORUM), change(0), parser=parser) == [(False, 4)]
    parser.note("lost", "an unknown number of lines")
    assert roles(change(1), parser=parser) == [(None, None)]


def test_nor_after_a_line_of_its_role_in_words_that_are_not_known():
    assert roles(said(ACTIVE, QUORUM), said("This node is no active controller any more", QUORUM), change(0)) == [
        (None, None)
    ]


def test_it_survives_a_restart_of_the_reader():
    parser = SourceParser("c", "s")
    roles(said(ACTIVE, QUORUM), parser=parser)
    assert roles(change(0), parser=SourceParser.restore(parser.snapshot())) == [(False, 4)]


def test_other_lines_than_a_controllers_have_neither():
    reported = plain(
        SourceParser("c", "s").feed((said(ACTIVE, QUORUM) + leader() + advanced(0, 1)).encode(), last=True)
    )
    assert short(reported, "committed", "controller_epoch") == [
        ("config", False, 4),
        ("leader", None, None),
        ("hw", None, None),
    ]


def facts(row):
    """The columns of a row about one partition epoch."""
    return row["leader_epoch"], tuple(row["isr"] or ()), row["leader_id"] if row["event_type"] == "election" else None


def by_epoch(events, *types):
    return {
        (row["topic_id"], row["partition"], row["partition_epoch"], row["event_type"]): facts(row)
        for row in events
        if row["event_type"] in types and row["isr"] is not None and row["leader_epoch"] is not None
    }


@pytest.mark.parametrize("recording", DUMPED)
def test_no_line_marked_committed_is_contradicted_by_the_metadata_log(recording):
    truth = by_epoch(rows(recording, "metadata.dump.gz"), "isr", "election")
    reported = [row for row in rows(recording, "*/controller.log.gz") if row["event_type"] in ("isr", "election")]
    known = {True: 0, False: 0, None: 0}
    for row in reported:
        key = (row["topic_id"], row["partition"], row["partition_epoch"], row["event_type"])
        known[row["committed"]] += 1
        if row["committed"] and row["leader_epoch"] is not None:
            assert truth[key] == facts(row), key
    assert known[True] > 0
    assert known[False] > 0
    assert known[None] == 0, "every controller.log of these names its role from its first line on"


def test_all_contradicted_lines_are_of_an_active_controller():
    """A woken leader of the quorum printed changes that were never committed."""
    truth = by_epoch(rows("zombie_leader", "metadata.dump.gz"), "isr", "election")
    wrong = []
    for row in rows("zombie_leader", "*/controller.log.gz"):
        key = (row["topic_id"], row["partition"], row["partition_epoch"], row["event_type"])
        if row["event_type"] in ("isr", "election") and truth.get(key) != facts(row):
            wrong.append((row["broker_id"], row["committed"]))
    assert len(wrong) > 4
    assert set(wrong) == {(1, False)}


@pytest.mark.parametrize("recording", DUMPED)
def test_the_printed_metadata_log_is_committed(recording):
    kinds = ("isr", "election", "broker_state", "config")
    reported = [row for row in rows(recording, "metadata.dump.gz") if row["event_type"] in kinds]
    assert reported
    assert {row["committed"] for row in reported} == {True}


def test_standbys_that_nobody_contradicts_agree_with_each_other():
    """lean_live has no metadata log: its standbys agree on every partition epoch."""
    found = {}
    reported = rows("lean_live", "*/controller.log.gz")
    for row in reported:
        if row["committed"] and row["event_type"] in ("isr", "election") and row["leader_epoch"] is not None:
            key = (row["topic_id"], row["partition"], row["partition_epoch"], row["event_type"])
            assert found.setdefault(key, facts(row)) == facts(row)
    assert found
