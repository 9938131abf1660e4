"""Clearing eligible leader replicas is a partition epoch where there were any (ReplicationControlManager.replay)."""

import pytest

from generators.brokerlogs.parsing.parser import SourceParser
from tests.unit.brokerlogs.log_lines import CONTROLLER, ID, line, plain, short
from tests.unit.brokerlogs.recorded import rows
from tests.unit.brokerlogs.test_metadata import NEW, TOPIC, change, dump

OTHER = "AAAAAAAAAAAAAAAAAAAAAA"
OTHER_TOPIC = ("TOPIC_RECORD", {"name": "other", "topicId": OTHER})
OTHER_NEW = ("PARTITION_RECORD", {**NEW[1], "topicId": OTHER, "partitionId": 0})


def clear(topic):
    return "CLEAR_ELR_RECORD", {"topicName": topic}


def epochs(*records):
    reported = plain(SourceParser("c", "metadata.dump").feed(dump(*records), last=True))
    return [row["partition_epoch"] for row in reported if row["topic"] == "or.d-ers"]


@pytest.mark.parametrize(
    ("before", "cleared", "epoch"),
    [
        pytest.param([], clear("or.d-ers"), 1, id="nothing to clear"),
        pytest.param([change(eligibleLeaderReplicas=[2])], clear("or.d-ers"), 3, id="an ELR"),
        pytest.param([change(lastKnownElr=[2])], clear("or.d-ers"), 3, id="a last known one"),
        pytest.param([change(eligibleLeaderReplicas=[2])], clear(""), 3, id="all topics"),
        pytest.param([change(eligibleLeaderReplicas=[2])], clear("other"), 2, id="another topic"),
        pytest.param(
            [change(eligibleLeaderReplicas=[2]), change(eligibleLeaderReplicas=[])],
            clear("or.d-ers"),
            3,
            id="empty by then",
        ),
        pytest.param([change(eligibleLeaderReplicas=[2]), clear("or.d-ers")], clear("or.d-ers"), 3, id="cleared twice"),
        pytest.param(
            [change(eligibleLeaderReplicas=[2]), change(isr=[1])], clear("or.d-ers"), 4, id="an ELR that stays"
        ),
    ],
)
def test_the_epoch_of_the_next_change(before, cleared, epoch):
    assert epochs(TOPIC, OTHER_TOPIC, NEW, OTHER_NEW, *before, cleared, change(isr=[2, 1]))[-1] == epoch


def test_an_elr_of_a_registration_counts():
    with_elr = ("PARTITION_RECORD", {**NEW[1], "eligibleLeaderReplicas": [2]})
    assert epochs(TOPIC, with_elr, clear("or.d-ers"), change(isr=[1])) == [0, 2]


def test_what_was_tracked_survives_a_restart_of_the_reader():
    data = dump(TOPIC, NEW, change(eligibleLeaderReplicas=[2]), clear("or.d-ers"), change(isr=[1]))
    lines = data.splitlines(keepends=True)
    parser, reported = SourceParser("c", "metadata.dump"), []
    for piece in lines:
        reported += plain(parser.feed(piece))
        parser = SourceParser.restore(parser.snapshot())
    assert short(reported + plain(parser.flush()), "partition_epoch") == [("election", 0), ("isr", 3)]


def test_a_controller_that_prints_no_change_lines_counts_it_too():
    def said(message):
        return line(f"[QuorumController id=2] {message}", CONTROLLER)

    registration = (
        f"Replayed PartitionRecord for new partition orders-1 with topic ID {ID} and PartitionRegistration("
        "replicas=[1, 2], isr=[1, 2], removingReplicas=[], addingReplicas=[], elr=[3], lastKnownElr=[], leader=1, "
        "leaderRecoveryState=RECOVERED, leaderEpoch=0, partitionEpoch=0)."
    )
    record = (
        f"Replayed partition change PartitionChangeRecord(partitionId=1, topicId={ID}, isr=[1], leader=-2, "
        "replicas=null, removingReplicas=null, addingReplicas=null, leaderRecoveryState=-1, directories=null, "
        "eligibleLeaderReplicas=null, lastKnownElr=null) for topic orders"
    )
    for cleared, epoch in [("of topic orders.", 2), ("in all topics.", 2), ("of topic other.", 1)]:
        lines = [said(registration), said(f"Removed ELRs from 1 partitions {cleared}"), said(record)]
        reported = plain(SourceParser("c", "s").feed("".join(lines).encode(), last=True))
        assert short(reported, "partition_epoch") == [("election", 0), ("isr", epoch)]


def test_the_epochs_of_the_metadata_log_are_those_of_leaders_and_controllers():
    """clicks, ledger and safe had ELRs that were cleared when their min ISR changed."""
    changes, elections = {}, set()
    for row in rows("dynamic_elr", "metadata.dump.gz"):
        place = (row["topic"], row["partition"])
        if row["event_type"] in ("isr", "election"):
            changes.setdefault(place, {})[row["partition_epoch"]] = (row["leader_epoch"], sorted(row["isr"]))
        if row["event_type"] == "election":
            elections.add((*place, row["leader_id"], row["leader_epoch"], row["partition_epoch"]))
    starts = [row for row in rows("dynamic_elr", "broker-*/replication.log.gz") if row["event_type"] == "leader"]
    assert {
        (row["topic"], row["partition"], row["leader_id"], row["leader_epoch"], row["partition_epoch"])
        for row in starts
    } <= elections
    reported = rows("dynamic_elr", "broker-*/replication.log.gz") + rows("dynamic_elr", "broker-*/controller.log.gz")
    for row in reported:
        if row["event_type"] == "isr" and row["leader_epoch"] is not None:
            known = changes[row["topic"], row["partition"]]
            at = max(epoch for epoch in known if epoch <= row["partition_epoch"])
            assert known[at] == (row["leader_epoch"], sorted(row["isr"])), row
