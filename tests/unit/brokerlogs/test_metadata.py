"""The printed metadata log: records in, events out, with the epochs that change records do not carry."""

import gzip
import json

import pytest

from generators.brokerlogs.parsing.parser import SourceParser
from generators.recordings import traces
from tests.unit.brokerlogs.log_lines import ID, T0, plain, short

TOPIC = ("TOPIC_RECORD", {"name": "or.d-ers", "topicId": ID})
NEW = (
    "PARTITION_RECORD",
    {
        "partitionId": 1,
        "topicId": ID,
        "replicas": [1, 2],
        "isr": [1, 2],
        "leader": 1,
        "leaderEpoch": 0,
        "partitionEpoch": 0,
    },
)


def change(**data):
    return "PARTITION_CHANGE_RECORD", {"partitionId": 1, "topicId": ID, **data}


def dump(*records):
    lines = ["Dumping /d/__cluster_metadata-0/0.log", "Log starting offset: 0"]
    for k, (kind, data) in enumerate(records):
        payload = json.dumps({"type": kind, "version": 0, "data": data}, separators=(",", ":"))
        lines.append(f"baseOffset: {k} lastOffset: {k} count: 1 isTransactional: false CreateTime: {T0 + k} size: 1")
        lines.append(f"| offset: {k} CreateTime: {T0 + k} keySize: -1 sequence: -1 headerKeys: [] payload: {payload}")
    return "\n".join([*lines, ""]).encode()


def reported(*records):
    parser = SourceParser("c", "metadata.dump")
    return plain(parser.feed(dump(*records), last=True))


def test_epochs_follow_from_the_registration():
    rows = reported(TOPIC, NEW, change(isr=[1]), change(isr=[2], leader=2, leaderRecoveryState=1), change(leader=-1))
    assert short(rows, "ts", "leader_id", "leader_epoch", "partition_epoch", "isr", "unclean") == [
        ("election", 1, 1, 0, 0, [1, 2], False),
        ("isr", 2, 1, 0, 1, [1], None),
        ("election", 3, 2, 1, 2, [2], True),
        ("isr", 3, 2, 1, 2, [2], True),
        ("election", 4, -1, 2, 3, [2], None),
    ]
    assert {(row["topic"], row["partition"], row["topic_id"], row["broker_id"], row["level"]) for row in rows} == {
        ("or.d-ers", 1, ID, -1, 0)
    }


def test_a_reassignment_is_reported_with_its_replicas():
    row = reported(TOPIC, NEW, change(replicas=[1, 2, 3], addingReplicas=[3]))[-1]
    assert (row["event_type"], row["isr"], row["replicas"], row["partition_epoch"]) == ("isr", [1, 2], [1, 2, 3], 1)


def test_a_partition_whose_registration_is_not_in_the_file_has_no_rows():
    assert reported(TOPIC, change(isr=[1])) == []


def test_a_topic_that_is_removed_and_made_again_starts_again():
    other = "AAAAAAAAAAAAAAAAAAAAAA"
    again = ("PARTITION_RECORD", {**NEW[1], "topicId": other})
    rows = reported(
        TOPIC,
        NEW,
        ("REMOVE_TOPIC_RECORD", {"topicId": ID}),
        ("TOPIC_RECORD", {"name": "or.d-ers", "topicId": other}),
        again,
    )
    assert short(rows, "topic_id", "partition_epoch", "detail") == [
        ("election", ID, 0, None),
        ("config", ID, None, "topic=deleted"),
        ("election", other, 0, None),
    ]


@pytest.mark.parametrize(
    ("record", "detail", "epoch"),
    [
        (("REGISTER_BROKER_RECORD", {"brokerId": 3, "brokerEpoch": 8, "fenced": True}), "started", 8),
        (("BROKER_REGISTRATION_CHANGE_RECORD", {"brokerId": 3, "brokerEpoch": 8, "fenced": 1}), "fenced", 8),
        (("BROKER_REGISTRATION_CHANGE_RECORD", {"brokerId": 3, "brokerEpoch": 8, "fenced": -1}), "unfenced", 8),
        (
            ("BROKER_REGISTRATION_CHANGE_RECORD", {"brokerId": 3, "brokerEpoch": 8, "inControlledShutdown": 1}),
            "controlled_shutdown",
            8,
        ),
        (("UNREGISTER_BROKER_RECORD", {"brokerId": 3, "brokerEpoch": 8}), "unregistered", 8),
        (("FENCE_BROKER_RECORD", {"id": 3, "epoch": 8}), "fenced", 8),
    ],
)
def test_broker_states(record, detail, epoch):
    (row,) = reported(record)
    assert (row["event_type"], row["replica_id"], row["detail"], row["broker_epoch"]) == (
        "broker_state",
        3,
        detail,
        epoch,
    )


@pytest.mark.parametrize(
    ("resource", "name", "expected"), [(2, "t", [("config", "t", 2)]), (4, "", [("config", None, 2)]), (4, "1", [])]
)
def test_settings(resource, name, expected):
    data = {"resourceType": resource, "resourceName": name, "name": "min.insync.replicas", "value": "2"}
    assert short(reported(("CONFIG_RECORD", data)), "topic", "min_isr") == expected


@pytest.mark.parametrize(
    ("records", "of"),
    [
        (dump(TOPIC, NEW).replace(b'"isr":[1,2],', b""), "PARTITION_RECORD"),
        (dump(TOPIC, ("NEXT_YEARS_RECORD", {})), "NEXT_YEARS_RECORD"),
        (dump(("FEATURE_LEVEL_RECORD", {"name": "metadata.version", "featureLevel": 999})), "FEATURE_LEVEL_RECORD"),
    ],
)
def test_a_record_that_cannot_be_read_is_reported_to_be_lost(records, of):
    parser = SourceParser("c", "s")
    (row,) = plain(parser.feed(records, last=True))
    assert (row["event_type"], row["detail"], row["partition"]) == ("lost", f"not understood: {of}", -1)
    assert parser.report.shapes == {f"kafka-dump-log: {of}": 1}


@pytest.mark.parametrize("scenario", traces.scenarios())
def test_brokers_and_controllers_print_the_changes_in_the_metadata_log(scenario):
    def changes(*files):
        found = set()
        for file in files:
            with gzip.open(file) as opened:
                rows = SourceParser("c", "s").feed(opened.read(), last=True).to_pylist()
            found |= {
                (
                    r["topic"],
                    r["partition"],
                    r["partition_epoch"],
                    r["event_type"],
                    tuple(r["isr"] or ()),
                    r["leader_id"] if r["event_type"] == "election" else None,
                )
                for r in rows
                if r["event_type"] in ("isr", "election")
            }
        return found

    folder = traces.path(scenario)
    truth = changes(folder / "metadata.dump.gz")
    assert changes(*folder.glob("broker-*/controller.log.gz")) == truth
    seen = changes(*folder.glob("broker-*/replication.log.gz"))
    assert seen
    assert seen <= truth
