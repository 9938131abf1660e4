"""The harness itself: it knows what happened, and a wrong answer of hwmark's does not pass. No Kafka is started."""

import json
import struct
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from xml.etree import ElementTree

import pytest

from pipelines.local_kafka import jars, stock_logging
from pipelines.local_kafka.versions import DEFAULT, VERSIONS, Bundle, version
from schemas import hw_regressions, isr_changes, telemetry_gaps
from tests.realkafka import verdicts
from tests.realkafka.load import Place, Record
from tests.realkafka.metadata_log import Isr, MetadataLog
from tests.realkafka.segments import log_end
from tests.realkafka.story import Story
from tests.realkafka.zookeeper import ZooKeeperLog

CLICKS: Place = ("clicks", 0)
LOSS = {
    "topic": "clicks", "partition": 0, "regression_id": "a", "revision": 0, "severity": "critical",
    "class": "unclean_loss", "proof": "proven", "lost_from": 5, "lost_to": 8, "evidence": "{}",
}  # fmt: skip
SHRINK = {
    "topic": "clicks", "partition": 0, "partition_epoch": 1, "revision": 0, "change": "shrink", "isr_after": [2, 1],
}  # fmt: skip


def records(first: int, last: int, word: bytes = b"first") -> set[Record]:
    return {(offset, b"%s %d" % (word, offset)) for offset in range(first, last + 1)}


def story(tables: dict[str, list[dict[str, Any]]], committed: tuple[Isr, ...] = ()) -> Story:
    """A story in which [5, 8) of clicks-0 was acknowledged, lost and written anew, and orders-0 lost nothing."""
    orders = ("orders", 0)
    acked = {CLICKS: records(0, 7) | records(5, 9, b"second"), orders: records(0, 9)}
    final = {CLICKS: dict(records(0, 4) | records(5, 9, b"second")), orders: dict(records(0, 9))}
    made = SimpleNamespace(
        final=final,
        producers=SimpleNamespace(acked=acked),
        reader=SimpleNamespace(shown={CLICKS: set(), orders: set()}),
        log_ends={CLICKS: (5, 8)},
        beside=SimpleNamespace(rows=lambda path: tables.get(path, [])),
        metadata=SimpleNamespace(isrs=list(committed)),
        kafka=version(DEFAULT),
    )
    return cast(Story, made)


def test_what_clients_lost_is_what_was_acknowledged_and_is_not_at_its_offset() -> None:
    assert verdicts.lost(story({})) == {CLICKS: verdicts.Lost(5, 7, 3)}


@pytest.mark.parametrize(
    ("changed", "right"),
    [
        ({}, True),
        ({"lost_from": 6}, False),
        ({"lost_from": 4}, False),
        ({"lost_to": 7}, False),
        ({"lost_to": 9}, False),
        ({"class": "committed_loss"}, False),
        ({"proof": "bounded"}, True),
        ({"proof": "unproven"}, False),
        ({"severity": "warning"}, False),
        ({"topic": "orders"}, False),
    ],
)
def test_a_lost_range_is_right_only_if_it_is_exact(changed: dict[str, Any], right: bool) -> None:
    assert (verdicts.wrong_losses(story({hw_regressions.TABLE.path: [LOSS | changed]})) == []) is right


def test_a_loss_without_a_row_is_wrong_and_only_the_latest_revision_counts() -> None:
    assert verdicts.wrong_losses(story({})) != []
    revised = [LOSS | {"lost_to": 7}, LOSS | {"revision": 1}]
    assert verdicts.wrong_losses(story({hw_regressions.TABLE.path: revised})) == []


def test_isr_changes_missing_too_many_or_retracted_are_found() -> None:
    committed = (Isr("clicks", 0, 1, (1, 2)),)
    rows = {isr_changes.TABLE.path: [SHRINK]}
    assert verdicts.wrong_isr_changes(story(rows, committed)) == []
    assert verdicts.wrong_isr_changes(story({}, committed)) != []
    assert verdicts.wrong_isr_changes(story(rows, ())) != []
    retracted = {isr_changes.TABLE.path: [SHRINK, SHRINK | {"revision": 1, "change": "retracted"}]}
    assert verdicts.wrong_isr_changes(story(retracted, ())) == []


def test_a_gap_in_the_telemetry_is_found_and_a_late_row_is_none() -> None:
    rows = [{"kind": "late"}, {"kind": "gap"}]
    assert verdicts.gaps(story({telemetry_gaps.TABLE.path: rows})) == [{"kind": "gap"}]


def metadata(folder: Path, *entries: tuple[str, dict[str, Any]]) -> MetadataLog:
    """A printed metadata log; the first records are a topic and a partition of it on brokers 1 and 2."""
    partition = {"topicId": "t", "partitionId": 0, "isr": [1, 2], "leader": 1, "partitionEpoch": 0}
    first = [("TOPIC_RECORD", {"name": "clicks", "topicId": "t"}), ("PARTITION_RECORD", partition)]
    lines = [
        f"| offset: {n} CreateTime: {100 + n} keySize: -1 valueSize: 9 sequence: -1 headerKeys: [] payload: "
        + json.dumps({"type": kind, "version": 0, "data": data})
        for n, (kind, data) in enumerate([*first, *entries])
    ]
    path = folder / "metadata.txt"
    path.write_text("\n".join(["Starting offset: 0", *lines]))
    return MetadataLog(path)


def test_every_partition_record_is_a_partition_epoch(tmp_path: Path) -> None:
    change = {"topicId": "t", "partitionId": 0}
    log = metadata(
        tmp_path,
        ("PARTITION_CHANGE_RECORD", change | {"leader": 2, "leaderRecoveryState": 1, "isr": [2]}),
        ("PARTITION_CHANGE_RECORD", change | {"leaderRecoveryState": 0}),
        ("PARTITION_CHANGE_RECORD", change | {"isr": [2, 1]}),
    )
    assert log.isrs == [Isr("clicks", 0, 1, (2,)), Isr("clicks", 0, 3, (1, 2))]
    assert [(e.ts_ms, e.leader, e.unclean) for e in log.elections] == [(102, 2, True)]
    assert log.removals == [(102, 1)]


@pytest.mark.parametrize("topic", ["clicks", ""])
def test_clearing_an_elr_is_a_partition_epoch_where_there_is_one_to_clear(tmp_path: Path, topic: str) -> None:
    change, clear = {"topicId": "t", "partitionId": 0}, {"topicName": topic}
    log = metadata(
        tmp_path,
        ("CLEAR_ELR_RECORD", clear),
        ("PARTITION_CHANGE_RECORD", change | {"isr": [1], "eligibleLeaderReplicas": [2]}),
        ("CLEAR_ELR_RECORD", clear),
        ("CLEAR_ELR_RECORD", clear),
        ("PARTITION_CHANGE_RECORD", change | {"isr": [1, 2]}),
    )
    assert log.isrs == [Isr("clicks", 0, 1, (1,)), Isr("clicks", 0, 3, (1, 2))]


def test_a_record_that_the_tool_does_not_know_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "metadata.txt"
    path.write_text("Error at 7, skipping. Unknown metadata id 99\n")
    with pytest.raises(ValueError, match="Unknown metadata id 99"):
        MetadataLog(path)


def state_text(kind: str, leader: int, epoch: int, isr: list[int]) -> str:
    """A state of clicks-0 as ZooKeeper's tool prints it: each text behind four bytes of its length."""
    state = json.dumps({"controller_epoch": 1, "leader": leader, "leader_epoch": epoch, "isr": isr})
    path = "/brokers/topics/clicks/partitions/0/state"
    return f"{kind}:\0\0\0{chr(len(path))}{path}\0\0\0{chr(len(state))}{state}"


def test_each_state_that_zookeeper_got_after_the_first_is_a_partition_epoch(tmp_path: Path) -> None:
    lines = [
        (12, "AM", f"multi check:\0\0\0\x11/controller_epoch;{state_text('create', 1, 0, [1, 2])}"),
        (1, "AM", state_text("setData", -1, 1, [1, 2])),
        (1, "PM", state_text("setData", 2, 2, [2]) + state_text("setData", 2, 2, [2, 1])),
        (1, "PM", state_text("setData", 3, 3, [3])),
    ]
    path = tmp_path / "metadata.txt"
    printed = [f"1/1/26, {hour}:00:02 {half} UTC session 0x1 cxid 0x1 zxid 0x1 {what}" for hour, half, what in lines]
    path.write_text("\n".join(printed))
    log = ZooKeeperLog(path)
    assert log.isrs == [Isr("clicks", 0, n, isr) for n, isr in ((2, (2,)), (3, (1, 2)), (4, (3,)))]
    noon = round(datetime(2026, 1, 1, 13, 0, 2, 999_000, tzinfo=UTC).timestamp() * 1000)
    assert [(e.ts_ms, e.leader, e.unclean) for e in log.elections] == [(noon, 2, False), (noon, 3, True)]
    assert log.removals == [(noon, 1), (noon, 1), (noon, 2)]


def batch(base: int, records: int) -> bytes:
    """A record batch as far as its end is computed from it."""
    body = b"\0" * 11 + struct.pack(">i", records - 1) + b"\0" * 30
    return struct.pack(">qi", base, len(body)) + body


def test_a_log_ends_behind_its_last_whole_batch(tmp_path: Path) -> None:
    folder = tmp_path / "clicks-0"
    folder.mkdir()
    segment = folder / "00000000000000000007.log"
    segment.write_bytes(b"")
    assert log_end(tmp_path, CLICKS) == 7
    segment.write_bytes(batch(7, 3) + batch(10, 1))
    assert log_end(tmp_path, CLICKS) == 11
    segment.write_bytes(batch(7, 3) + batch(10, 1)[:-1])
    assert log_end(tmp_path, CLICKS) == 10


def jar(folder: Path, name: str, **files: str) -> None:
    with zipfile.ZipFile(folder / name, "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)


def test_jars_that_are_missing_broken_of_another_version_or_without_a_main_class_are_refused(tmp_path: Path) -> None:
    bundle = Bundle("4.1.1", ("org.apache.kafka:kafka_2.13:4.1.1",), ("kafka.Kafka",))
    properties = "kafka/kafka-version.properties"
    with pytest.raises(jars.NoJars, match=r"kafka_2\.13-4\.1\.1\.jar"):
        jars.check(bundle, tmp_path)
    jar(tmp_path, "kafka_2.13-4.1.1.jar")
    jar(tmp_path, "kafka-clients-4.1.1.jar", **{properties: "commitId=x\nversion=4.1.1\n"})
    with pytest.raises(jars.NoJars, match=r"kafka\.Kafka"):
        jars.check(bundle, tmp_path)
    jar(tmp_path, "kafka_2.13-4.1.1.jar", **{"kafka/Kafka.class": ""})
    jars.check(bundle, tmp_path)
    jar(tmp_path, "kafka-clients-4.1.1.jar", **{properties: "version=4.0.0\n"})
    with pytest.raises(jars.NoJars, match=r"it is 4\.0\.0"):
        jars.check(bundle, tmp_path)
    (tmp_path / "kafka-clients-4.1.1.jar").write_bytes(b"PK")
    with pytest.raises(jars.NoJars, match="broken"):
        jars.check(bundle, tmp_path)


def test_jars_that_two_ask_for_at_once_are_fetched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle, fetched = Bundle("4.1.1", ("org.apache.kafka:kafka_2.13:4.1.1",), ("kafka.Kafka",)), []

    def fetch(bundle: Bundle, scratch: Path, out: Path) -> None:
        fetched.append(scratch)
        time.sleep(0.2)  # the other one asks meanwhile
        out.mkdir()
        jar(out, "kafka_2.13-4.1.1.jar", **{"kafka/Kafka.class": ""})
        jar(out, "kafka-clients-4.1.1.jar", **{"kafka/kafka-version.properties": "version=4.1.1\n"})

    monkeypatch.setenv("HWMARK_KAFKA_JARS", str(tmp_path / "jars"))
    monkeypatch.setattr(jars, "_copy_dependencies", fetch)
    with ThreadPoolExecutor(2) as pool:
        homes = list(pool.map(jars.jars, [bundle, bundle]))
    assert homes == [jars.folder(bundle)] * 2
    assert len(fetched) == 1


def test_the_pom_names_every_artifact() -> None:
    for kafka in VERSIONS.values():
        found = ElementTree.fromstring(jars.pom(kafka.broker)).iter("{http://maven.apache.org/POM/4.0.0}artifactId")
        asked = [coordinates.split(":")[1] for coordinates in kafka.broker.artifacts]
        assert [name.text for name in found] == ["real-kafka", *asked]


def test_an_unknown_version_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"there are 3\.9, 4\.1, 4\.4"):
        version("2.8")


def xml_loggers() -> dict[str, str]:
    """Every logger of the XML file and its level."""
    loggers = ElementTree.parse(stock_logging.CONF / "log4j2-hwmark.xml").getroot().iter("Logger")
    return {logger.attrib["name"]: logger.attrib["level"] for logger in loggers}


def yaml_loggers() -> dict[str, str]:
    """Every logger of the YAML file and its level."""
    lines = [line.strip() for line in (stock_logging.CONF / "log4j2-hwmark.yaml").read_text().splitlines()]
    names = [n for n, line in enumerate(lines) if line.startswith("- name:") and lines[n + 1].startswith("level:")]
    return {lines[n].split()[-1]: lines[n + 1].split()[-1] for n in names}


def log4j1_loggers() -> dict[str, str]:
    """Every logger of the log4j 1 file and its level."""
    lines = (stock_logging.CONF / "log4j1-hwmark.properties").read_text().splitlines()
    pairs = [line.removeprefix("log4j.logger.").split("=") for line in lines if line.startswith("log4j.logger.")]
    return {name: levels.split(",")[0] for name, levels in pairs}


def test_all_three_files_switch_on_the_same_loggers() -> None:
    log4j2 = xml_loggers()
    assert yaml_loggers() == log4j2
    renamed = {"kafka.log.UnifiedLog": "org.apache.kafka.storage.internals.log.UnifiedLog"}
    before = {renamed.get(name, name): level for name, level in log4j1_loggers().items()}
    later = {
        "org.apache.kafka.server.partition.DefaultAlterPartitionManager",
        "org.apache.kafka.common.utils.internals.AppInfoParser",
        # log4j 1 cannot keep the lines below WARN of one logger out of one appender, and at INFO it prints every log.
        "kafka.log.LogManager",
    }
    assert before == {name: level for name, level in log4j2.items() if name not in later}


def test_log4j_stays_through_a_shutdown_in_both_files() -> None:
    root = ElementTree.parse(stock_logging.CONF / "log4j2-hwmark.xml").getroot()
    assert root.attrib["shutdownHook"] == "disable"
    assert "\n  shutdownHook: disable\n" in (stock_logging.CONF / "log4j2-hwmark.yaml").read_text()


@pytest.mark.parametrize("name", VERSIONS)
def test_what_is_merged_is_what_is_shipped_and_our_file(name: str, tmp_path: Path) -> None:
    kafka = version(name)
    (flag,) = stock_logging.configure(kafka, tmp_path, "yaml")
    files = [Path(file.removeprefix("file:")) for file in flag.split("=", 1)[1].split(",")]
    assert all(file.is_file() for file in files)
    assert len(files) == (1 if kafka.log4j1 else 2)
    merged = "".join(file.read_text() for file in files)
    assert merged.index("state-change.log") < merged.index("replication.log")
