"""Starts and stops of a broker, its versions and rack, and log directories that fail."""

import pytest

from generators.brokerlogs.ingest import ingest_logs, read_logs
from generators.brokerlogs.parsing.parser import SourceParser
from tests.unit.brokerlogs.log_lines import CONTROLLER, STATE, T0, leader, line, plain, recorded, short
from tests.unit.brokerlogs.recorded import RECORDINGS, rows
from tests.unit.brokerlogs.test_metadata import dump

INFO, INFO_44 = "org.apache.kafka.common.utils.AppInfoParser", "org.apache.kafka.common.utils.internals.AppInfoParser"
SERVER, LIFECYCLE = "kafka.server.BrokerServer", "kafka.server.BrokerLifecycleManager"
JVM = "kafka.utils.Log4jControllerRegistration$"
MANAGER, LOGS = "kafka.server.ReplicaManager", "kafka.log.LogManager"
CHANNEL = "org.apache.kafka.storage.internals.log.LogDirFailureChannel"
FEATURES = "org.apache.kafka.metadata.publisher.FeaturesPublisher"
CLUSTER = "org.apache.kafka.controller.ClusterControlManager"


def start(ms, broker=1):
    """What a broker prints that starts, as far as it counts."""
    return [
        line("Registered `kafka:type=kafka.Log4jController` MBean", JVM, ms=ms),
        line(f"[BrokerServer id={broker}] Transition from SHUTDOWN to STARTING", SERVER, ms=ms + 2000),
        line(
            "[BrokerLifecycleManager id=1] Incarnation x of broker 1 in cluster y is now STARTING.",
            LIFECYCLE,
            ms=ms + 4000,
        ),
        line("Kafka version: 4.1.1", INFO, ms=ms + 5000),
    ]


def stop(ms, broker=1):
    return [
        line(f"[BrokerServer id={broker}] Transition from STARTED to SHUTTING_DOWN", SERVER, ms=ms),
        line(f"[BrokerServer id={broker}] shut down completed", SERVER, ms=ms + 900),
    ]


def ends(*lines):
    parser = SourceParser("c", "broker-1/server.log", broker_id=1)
    parser.feed("".join(lines).encode(), last=True)
    return [word.partition(" ends at ")[2].partition(" without a shutdown: ")[0] for word in parser.take_messages()]


def clock(ms):
    return f"2026-11-21 01:{(T0 // 1000 - 1795222800 + ms // 1000) // 60:02d}:{(T0 + ms) // 1000 % 60:02d}"


def test_a_start_that_no_stop_precedes_is_reported():
    assert ends(*start(0), recorded(2, 1, ms=9000), *start(30_000)) == [clock(9000)]


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([*start(0), *stop(9000), *start(30_000)], id="stopped"),
        pytest.param(start(0), id="the first start of a log"),
        pytest.param([recorded(2, 1), *start(3000)], id="lines of the same start before its first sign"),
        pytest.param(
            [
                *start(0),
                line("[Broker id=1] Stopped fetchers as part of controlled shutdown for 3 partitions", STATE, ms=9000),
                *start(30_000),
            ],
            id="a stop that only the state changes show",
        ),
        pytest.param([*start(0), line("Kafka version: 3.9.1", INFO, ms=90_000)], id="a client inside the broker"),
        pytest.param(
            [recorded(2, n, sn=900 + n, ms=n) for n in range(3)] + [recorded(2, n, sn=n, ms=9000 + n) for n in (1, 2)],
            id="a log without lines of starts and stops",
        ),
    ],
)
def test_no_row_for(lines):
    assert ends(*lines) == []


def test_a_log_that_begins_in_the_middle_of_a_run_shows_its_end():
    assert ends(recorded(2, 1), recorded(2, 2, ms=70_000), *start(90_000)) == [clock(70_000)]


def test_line_numbers_that_begin_again_are_a_start():
    before = [recorded(2, 1, sn=800), line("App info kafka.producer for x unregistered", INFO, sn=801, ms=10)]
    running = [line("Kafka version: 4.1.1", INFO, sn=802, ms=20), recorded(2, 2, sn=803, ms=30)]
    assert ends(*before, *running, recorded(2, 1, sn=1, ms=9000), recorded(2, 1, sn=2, ms=9001)) == [clock(30)]


def test_signs_are_kept_over_a_restart_of_the_reader():
    parser = SourceParser("c", "broker-1/server.log", broker_id=1)
    parser.feed("".join([*start(0), recorded(2, 1, ms=9000)]).encode(), last=True)
    again = SourceParser.restore(parser.snapshot())
    again.feed("".join(start(30_000)).encode(), last=True)
    (word,) = again.take_messages()
    assert word == (
        f"broker-1/server.log ends at {clock(9000)} without a shutdown: it was killed, or its log4j2 stops at SIGTERM "
        "(shutdownHook: disable)"
    )
    assert again.take_messages() == []


def test_the_summary_has_it_and_no_row_is_lost(tmp_path):
    folder = tmp_path / "broker-1"
    folder.mkdir()
    (folder / "server.log").write_text("".join([*start(0), leader(ms=8000), *start(30_000)]))
    summary = ingest_logs([folder], cluster="c", lake=str(tmp_path / "lake"))
    assert "broker-1/server.log ends at" in str(summary)
    assert "lost" not in read_logs([folder], "c")["event_type"].to_pylist()


def test_the_kills_of_a_recorded_cluster_are_reported(tmp_path):
    """Brokers 2 and 1 were killed; all three were stopped in the end."""
    summary = ingest_logs([RECORDINGS["lean_live"]], cluster="c", lake=str(tmp_path))
    said = [word for word in summary.problems if "without a shutdown" in word]
    assert [word.partition(" ends at ")[0] for word in said] == ["broker-1/server.log", "broker-2/server.log"]


def reported(*lines, **settings):
    parser = SourceParser("c", "s", **settings)
    return short(plain(parser.feed("".join(lines).encode(), last=True)), "ts", "broker_id", "replica_id", "detail")


@pytest.mark.parametrize("logger", [INFO, INFO_44])
@pytest.mark.parametrize("words", ["Kafka version: 4.4.0", "Kafka version : 4.4.0"])
def test_the_version_of_a_broker(logger, words):
    assert reported(line(words, logger), broker_id=3) == [("config", 0, 3, 3, "kafka=4.4.0")]


def test_a_version_waits_for_the_first_line_that_names_the_broker():
    first = [line("Kafka version: 4.1.1", INFO, ms=5), recorded(2, 1, ms=6)]
    named = line("[BrokerServer id=7] Waiting for the broker to be unfenced", SERVER, ms=7)
    assert reported(*first[:1], named) == [("config", 5, 7, 7, "kafka=4.1.1")]
    parser = SourceParser("c", "s")
    parser.feed(first[0].encode(), last=True)
    again = SourceParser.restore(parser.snapshot())
    assert [row["detail"] for row in plain(again.feed(named.encode(), last=True))] == ["kafka=4.1.1"]


@pytest.mark.parametrize(
    "words",
    [
        "[BrokerServer id=1] Loaded new metadata FinalizedFeatures[metadataVersion=4.1-IV1, finalizedFeatures={}].",
        "[ControllerServer id=1] Loaded new metadata Features(metadataVersion=4.1-IV1, finalizedFeatures={}).",
    ],
)
def test_the_metadata_version_as_a_node_loads_it(words):
    assert reported(line(words, FEATURES)) == [("config", 0, 1, 1, "metadata=4.1-IV1")]


def test_the_metadata_version_of_a_controller_and_of_the_metadata_log():
    said = "[QuorumController id=2] Replayed a FeatureLevelRecord setting metadata.version to 3.9-IV0"
    feature = "org.apache.kafka.controller.FeatureControlManager"
    assert reported(line(said, feature)) == [("config", 0, 2, 2, "metadata=3.9-IV0")]
    record = ("FEATURE_LEVEL_RECORD", {"name": "metadata.version", "featureLevel": 27})
    other = ("FEATURE_LEVEL_RECORD", {"name": "group.version", "featureLevel": 1})
    assert reported(dump(other, record).decode()) == [("config", 1, -1, None, "metadata=4.1-IV1")]


def test_the_rack_of_a_broker():
    words = "RegisterBrokerRecord(brokerId=3, brokerEpoch=96, features=[Feature(name='a', x=1)], rack={}, fenced=true)"
    said = "[QuorumController id=2] Replayed initial RegisterBrokerRecord for broker 3: "
    assert reported(line(said + words.format("'eu-1 b'"), CLUSTER))[1:] == [("config", 0, 2, 3, "rack=eu-1 b")]
    assert reported(line(said + words.format("null"), CLUSTER))[1:] == []
    record = {"brokerId": 3, "brokerEpoch": 96, "rack": "eu-1"}
    assert reported(dump(("REGISTER_BROKER_RECORD", record)).decode())[1:] == [("config", 0, -1, 3, "rack=eu-1")]


@pytest.mark.parametrize(
    ("words", "logger"),
    [
        (
            "[ReplicaManager broker=1] Stopping serving replicas in dir /d with uuid Optional[x] because the log "
            "directory has failed.",
            MANAGER,
        ),
        ("Stopping serving logs in dir /d", LOGS),
        ("Stopping serving logs in dir /d", "org.apache.kafka.storage.internals.log.LogManager"),
        ("Failed to create or validate data directory /d", CHANNEL),
        ("Error while loading log dir /d", CHANNEL),
    ],
)
def test_a_broker_prints_that_its_log_directory_failed(words, logger):
    assert reported(line(words, logger), broker_id=1) == [("broker_state", 0, 1, 1, "log_dir_offline")]


@pytest.mark.parametrize(
    ("words", "logger"),
    [
        ("[ReplicaManager broker=1] Stopped serving replicas in dir /d", MANAGER),
        ("Error while appending records to orders-1 in dir /d", CHANNEL),
        ("Loading logs from log dirs ArrayBuffer(/d)", LOGS),
    ],
)
def test_what_comes_with_it_adds_nothing(words, logger):
    assert reported(line(words, logger), broker_id=1) == []


def test_a_controller_prints_that_the_log_directory_of_a_broker_failed():
    said = "[QuorumController id=2] "
    lines = [
        line(
            said
            + "Replayed initial RegisterBrokerRecord for broker 3: RegisterBrokerRecord(brokerId=3, brokerEpoch=96)",
            CLUSTER,
        ),
        line(said + "Directories [a, b] in broker 3 marked offline, remaining directories: [c]", CONTROLLER, ms=1),
        line(
            said + "Replayed BrokerRegistrationChangeRecord modifying the registration for broker 3: "
            "BrokerRegistrationChangeRecord(brokerId=3, brokerEpoch=96, fenced=0, inControlledShutdown=0, logDirs=[c])",
            CLUSTER,
            ms=2,
        ),
        line(
            said + "Replayed BrokerRegistrationChangeRecord modifying the registration for broker 3: "
            "BrokerRegistrationChangeRecord(brokerId=3, brokerEpoch=96, fenced=0, inControlledShutdown=0, logDirs=[], "
            "cordonedLogDirs=[c])",
            CLUSTER,
            ms=3,
        ),
    ]
    rows = plain(SourceParser("c", "s").feed("".join(lines).encode(), last=True))
    assert short(rows, "ts", "replica_id", "broker_epoch", "detail") == [
        ("broker_state", 0, 3, 96, "started"),
        ("broker_state", 1, 3, 96, "log_dir_offline"),
        ("broker_state", 2, 3, 96, "log_dir_offline"),
    ]


def test_the_metadata_log_has_it_too():
    record = {"brokerId": 3, "brokerEpoch": 96, "logDirs": ["c"]}
    rows = reported(dump(("BROKER_REGISTRATION_CHANGE_RECORD", record)).decode())
    assert rows == [("broker_state", 0, -1, 3, "log_dir_offline")]


@pytest.mark.parametrize(
    ("recording", "version"), [("lean_live", "kafka=4.1.1"), ("unclean_election_44", "metadata=4.4-IV2")]
)
def test_versions_of_recorded_brokers(recording, version):
    found = {
        (row["broker_id"], row["detail"]) for row in rows(recording, "*/*.log.gz") if row["event_type"] == "config"
    }
    assert {broker for broker, detail in found if detail == version} == {1, 2, 3}


@pytest.mark.parametrize(
    ("words", "detail"),
    [
        ("Skipping recovery of 9 logs from /d since clean shutdown file was found", "start=clean"),
        ("Skipping recovery for all logs in /d since clean shutdown file was found", "start=clean"),
        ("Recovering 9 logs from /d since no clean shutdown file was found", "start=unclean"),
        ("Attempting recovery for all logs in /d since no clean shutdown file was found", "start=unclean"),
        ("No logs found to be loaded in /d", "start=unclean"),  # it may be another disk than before
    ],
)
@pytest.mark.parametrize("logger", [LOGS, "org.apache.kafka.storage.internals.log.LogManager"])
def test_a_broker_prints_as_it_starts_whether_it_had_stopped_cleanly(words, detail, logger):
    """2.6, 3.9 and 4.1. What the controller granted says nothing of how the process ended."""
    (row,) = plain(SourceParser("c", "s", broker_id=1).feed(line(words, logger).encode(), last=True))
    assert (row["event_type"], row["replica_id"], row["detail"]) == ("config", 1, detail)
