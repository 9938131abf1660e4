"""Lines of evidence in words that are not known: an unknown, never a wrong number."""

import re
from types import SimpleNamespace

import pytest

from generators.brokerlogs.ingest import ingest_logs
from generators.brokerlogs.messages.evidence import shape_of
from generators.brokerlogs.parsing.parser import SourceParser
from generators.brokerlogs.tailing.missing_lines import MissingLines
from generators.brokerlogs.tailing.summary import SourceSummary, count_lines
from tests.unit.brokerlogs.log_lines import (
    CONTROLLER,
    FETCHER,
    LOG,
    PARTITION,
    STATE,
    advanced,
    leader,
    line,
    partition,
    plain,
    recorded,
)
from tests.unit.brokerlogs.recorded import RECORDINGS, content

pytestmark = pytest.mark.long

LEADER_CRASH, FOLLOWER = "broker-3/replication.log.gz", "broker-1/fetcher.log.gz"
ANOTHER_WORDING = {
    PARTITION: ("leader_crash", LEADER_CRASH, "ISR updated to", "ISR is now"),
    f"{PARTITION} HW": ("leader_crash", LEADER_CRASH, "High watermark updated from", "High watermark moved from"),
    f"{PARTITION} LEOs": ("leader_crash", LEADER_CRASH, "All current LEOs are", "The LEOs are"),
    f"{PARTITION} fetches": ("leader_crash", LEADER_CRASH, "log end offset (LEO) position", "LEO"),
    f"{PARTITION} prefix": ("leader_crash", LEADER_CRASH, r"\[Partition (\S+) broker=", r"[Partition \1, broker "),
    STATE: ("leader_crash", LEADER_CRASH, "starts at leader epoch", "begins leader epoch"),
    f"{STATE} metadata": ("leader_crash", LEADER_CRASH, "Skipped the become-", "No become-"),
    "AlterPartitionManager": (
        "unclean_election_44",
        "broker-3/replication.log.gz",
        "Controller successfully handled AlterPartition request for",
        "Controller has handled",
    ),
    "AlterPartitionManager fields": ("leader_crash", LEADER_CRASH, "errorCode=0, leaderId=", "error=NONE, leaderId="),
    "ReplicationControlManager": (
        "leader_crash",
        "broker-2/controller.log.gz",
        "partition change for",
        "Partition changed:",
    ),
    "ClusterControlManager": (
        "leader_crash",
        "broker-2/controller.log.gz",
        "Replayed initial Register",
        "Applied Register",
    ),
    "ConfigurationControlManager": (
        "leader_crash",
        "broker-2/controller.log.gz",
        "Replayed ConfigRecord",
        "Applied ConfigRecord",
    ),
    "BrokerHeartbeatManager": (
        "leader_crash",
        "broker-2/controller.log.gz",
        "has requested and been granted a controlled shutdown",
        "shuts down",
    ),
    "QuorumController": (
        "leader_crash",
        "broker-2/controller.log.gz",
        "Becoming the active controller",
        "This node is the active controller",
    ),
    "ReplicaFetcherThread": ("leader_crash", FOLLOWER, "Truncating partition", "Going to truncate"),
    "ReplicaFetcherThread HW": (
        "leader_crash",
        FOLLOWER,
        "Follower received high watermark",
        "High watermark received:",
    ),
    "UnifiedLog": ("unclean_election", FOLLOWER, "Truncating to offset", "Truncated to"),
    "UnifiedLog HW": ("zombie_leader", FOLLOWER, "Non-monotonic update of high watermark", "High watermark goes back"),
}


def parsed(data, broker=1):
    parser = SourceParser("c", "s", broker_id=broker)
    return parser, parser.feed(data, last=True).to_pylist()


@pytest.mark.parametrize("recording", RECORDINGS)
@pytest.mark.sampled(3)
def test_every_line_of_a_recording_is_understood_or_known_to_be_irrelevant(recording, tmp_path):
    summary = ingest_logs([RECORDINGS[recording]], cluster="c", lake=str(tmp_path))
    for source in summary.sources:
        assert (source.report.shapes, source.report.ignored, source.report.nameless) == ({}, {}, 0), source.source_id
    assert "not understood" not in str(summary)
    assert "not known" not in str(summary)


@pytest.mark.parametrize(("recording", "file", "words", "anew"), ANOTHER_WORDING.values(), ids=ANOTHER_WORDING)
@pytest.mark.sampled(3)
def test_another_wording_is_lost_and_the_source_is_at_level_0_from_there(recording, file, words, anew):
    text = content(RECORDINGS[recording] / file).decode()
    changed = re.sub(words if "\\1" in anew else re.escape(words), anew, text)
    assert changed != text
    parser, rows = parsed(changed.encode())
    lost = [k for k, row in enumerate(rows) if row["event_type"] == "lost"]
    assert lost
    for k in lost:
        assert rows[k]["detail"].startswith("not understood: ")
        assert (rows[k]["partition"], rows[k]["level"]) == (-1, 0)
    assert {row["level"] for row in rows[lost[0] :]} == {0}
    assert sum(parser.report.shapes.values()) >= len(lost)
    seconds = [(rows[k]["detail"], rows[k]["ts"].replace(microsecond=0)) for k in lost]
    assert len(seconds) == len(set(seconds)), "one a second and shape"


def test_the_summary_names_shapes_with_counts_and_an_example(tmp_path):
    folder = tmp_path / "broker-1"
    folder.mkdir()
    words = [line(partition(f"ISR is now 1,{n} and version {n}"), ms=n) for n in (2, 3)]
    (folder / "replication.log").write_text(leader() + "".join(words))
    summary = str(ingest_logs([folder], cluster="c", lake=str(tmp_path / "lake")))
    assert "2 lines of evidence not understood" in summary
    shape = "2 x kafka.cluster.Partition: ISR is now # and version #"
    assert f"{shape} (broker-1/replication.log: ISR is now 1,2 and version 2)" in summary


def test_the_level_comes_back_with_the_next_start_that_the_source_shows():
    unknown = line(partition("ISR is now 1"), ms=20)
    version = line("Kafka version: 4.9.0", "org.apache.kafka.common.utils.AppInfoParser", ms=40)
    lines = [leader(), recorded(2, 0, ms=10), unknown, recorded(2, 1, ms=30), version, recorded(2, 2, ms=50)]
    _, rows = parsed("".join(lines).encode())
    assert [(row["event_type"], row["level"]) for row in rows] == [
        ("leader", 3),
        ("fetch", 3),
        ("lost", 0),
        ("fetch", 0),
        ("config", 0),
        ("fetch", 3),
    ]


def test_so_it_does_where_line_numbers_begin_again():
    before = [recorded(2, 0, sn=900), line(partition("ISR is now 1"), sn=901, ms=5), recorded(2, 1, sn=902, ms=6)]
    after = [recorded(2, 2, sn=n, ms=5000 + n) for n in (1, 2)]
    rows = plain(SourceParser("c", "s").feed("".join(before + after).encode(), last=True))
    assert [(row["event_type"], row["level"]) for row in rows] == [
        ("fetch", 3),
        ("lost", 0),
        ("fetch", 0),
        ("fetch", 3),
        ("fetch", 3),
    ]


def test_the_level_stays_down_over_a_restart_of_the_reader():
    parser = SourceParser("c", "s")
    parser.feed((leader() + recorded(2, 0, ms=10) + line(partition("ISR is now 1"), ms=20)).encode())
    parser.flush()
    again = SourceParser.restore(parser.snapshot())
    rows = plain(again.feed((recorded(2, 1, ms=30) + line(partition("ISR is now 1"), ms=40)).encode(), last=True))
    assert [(row["event_type"], row["level"]) for row in rows] == [("fetch", 0)], (
        "the shape was reported in this second"
    )


def test_two_lines_in_one_are_a_cut_line_not_another_wording():
    torn = line(partition("ISR updated to 1,2 and ver"))[:-1] + line(
        partition("ISR updated to 1,2  and version updated to 4")
    )
    parser, rows = parsed((leader() + recorded(2, 0, ms=1) + torn + recorded(2, 1, ms=9)).encode())
    assert [(row["event_type"], row["level"]) for row in rows] == [
        ("leader", 3),
        ("fetch", 3),
        ("lost", 3),
        ("fetch", 3),
    ]
    assert (parser.report.broken, parser.report.shapes) == (1, {})


def test_a_line_that_only_looks_like_a_harmless_one_is_evidence():
    """Beginnings such as "Node ", "Broker ", "Log" or "No" hid whatever came after them."""
    for message, logger in [
        ("[QuorumController id=1] Node 3 left the ISR of orders-1", CONTROLLER),
        ("[QuorumController id=1] Broker 3 was fenced", CONTROLLER),
        ("[Partition orders-1 broker=1] Log of replica 3 was lost", PARTITION),
        ("[Partition orders-1 broker=1] No replica but 3 is in the ISR", PARTITION),
        ("[Broker id=1] Completed the move of orders-1 to broker 3", STATE),
    ]:
        _, rows = parsed(line(message, logger).encode())
        assert [row["event_type"] for row in rows] == ["lost"], message


@pytest.mark.parametrize(
    ("message", "logger"),
    [
        ("[ReplicaFetcher replicaId=1, leaderId=2, fetcherId=0] Connection reset by peer", FETCHER),
        ("[UnifiedLog partition=orders-1, dir=/d] Rolled new log segment at offset 7 in 3 ms.", LOG),
        ("[QuorumController id=1] A new sentence about snapshots.", "org.apache.kafka.controller.QuorumController"),
        ("[GroupCoordinator id=1] Whatever", "org.apache.kafka.coordinator.group.GroupCoordinatorService"),
    ],
)
def test_a_new_line_without_information_on_replication_changes_nothing(message, logger):
    parser, rows = parsed(
        (leader() + recorded(2, 0, ms=1) + line(message, logger, ms=2) + recorded(2, 1, ms=3)).encode()
    )
    assert [(row["event_type"], row["level"]) for row in rows] == [("leader", 3), ("fetch", 3), ("fetch", 3)]
    assert (parser.report.shapes, parser.report.ignored) == ({}, {})


@pytest.mark.parametrize(
    "message",
    [
        "[Controller id=1 epoch=2] Changed partition orders-1 state from OnlinePartition to OfflinePartition",
        "[Controller id=1 epoch=2] Sending LeaderAndIsr request to broker 2 with 1 become-leader and 2 become-follower",
        "[Broker id=1] Handling LeaderAndIsr request correlationId 3 from controller 1 for 2 partitions",
        "[Broker id=1] Add 1 partitions and deleted 0 partitions from metadata cache in response to UpdateMetadata",
    ],
)
def test_what_a_zookeeper_cluster_prints_besides_is_no_evidence(message):
    parser, rows = parsed(line(message, STATE).encode())
    assert (rows, parser.report.shapes) == ([], {})


@pytest.mark.parametrize("client", ["ZooKeeperClient Kafka server", "ZooKeeperClient"])
def test_a_session_with_zookeeper_that_expired_is_of_the_broker_that_registers_again(client):
    """ZooKeeperClient.scheduleReinitialize (2.8.2, 3.6.2); the authorizer has a client of its own, which says so."""
    printed = line(f"[{client}] Session expired.", "kafka.zookeeper.ZooKeeperClient")
    other = line("[ZooKeeperClient ACL authorizer] Session expired.", "kafka.zookeeper.ZooKeeperClient")
    parser, rows = parsed((printed + other).encode())
    assert [(row["event_type"], row["replica_id"], row["detail"]) for row in rows] == [("config", 1, "session=expired")]
    assert parser.report.shapes == {}


def test_a_hw_line_with_the_separators_of_older_versions_is_read():
    printed = line(partition("High watermark updated from (offset=1 segment=[0:7]) to (offset=2 segment=[0:9])"))
    assert [row["hw"] for row in parsed(printed.encode())[1]] == [2]


def test_shapes_are_many_but_not_without_end():
    lines = [line(partition(f"news{chr(97 + n % 26)}{chr(97 + n // 26)}"), ms=n * 1000) for n in range(400)]
    parser, rows = parsed("".join(lines).encode())
    assert len(parser.report.shapes) <= 201
    assert len(rows) == 400


@pytest.mark.parametrize(
    ("message", "shape"),
    [
        ("ISR is now 1,2, 3 and version updated to 5", "ISR is now # and version updated to #"),
        ("Leader a.b-c_d-12 with topic id Some(8x30CauwR6S1Ou0qiySY3A) leads", "Leader * with topic id Some(*) leads"),
        ("set 'min.isr' of topic plain in /var/lib/kafka/d-1 to -1", "set * of topic * in * to -#"),
        ("x" * 500, "x" * 159 + "…"),
    ],
)
def test_a_shape_has_no_numbers_and_no_names(message, shape):
    assert shape_of(message, ["plain"]) == shape


def test_counts_of_an_earlier_call_are_not_reported_again():
    parser = SourceParser("c", "s")
    parser.feed(line(partition("ISR is now 1")).encode(), last=True)
    summary = SourceSummary("s")

    again = SourceParser.restore(parser.snapshot())
    count_lines(
        summary,
        SimpleNamespace(report_before=parser.report, parser=again, follow=False, missing=MissingLines(())),
    )
    assert summary.report.shapes == {}


def test_a_hw_line_is_distinguished_from_a_cut_one():
    cut = advanced(0, 15)[:-20] + "\n"
    parser, rows = parsed((leader() + cut).encode())
    assert (parser.report.broken, parser.report.shapes) == (1, {})
    assert [row["event_type"] for row in rows] == ["leader", "lost"]
