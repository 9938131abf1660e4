"""Clusters that keep their state in ZooKeeper: what they lost, and when nobody led, from their own logs."""

import shutil
from pathlib import Path

import pytest

from tests.unit.field.cases import facts_of, health_of, lost, rows, unpack, write

KAFKA_2_3 = {
    "broker-1/server.log": """\
[2026-11-21 03:00:00,000] INFO Kafka version : 2.3.1 (org.apache.kafka.common.utils.AppInfoParser)
[2026-11-21 03:00:00,100] INFO [KafkaServer id=1] started (kafka.server.KafkaServer)
[2026-11-21 03:01:00,000] INFO [Partition pay-0 broker=1] pay-0 starts at Leader Epoch 0 from offset 0. Previous \
Leader Epoch was: -1 (kafka.cluster.Partition)
[2026-11-21 03:05:00,000] INFO [Partition pay-0 broker=1] Shrinking ISR from 1,2 to 1. Leader: (highWatermark: 100, \
endOffset: 101). Out of sync replicas: (brokerId: 2, endOffset: 100). (kafka.cluster.Partition)
[2026-11-21 03:20:00,000] INFO Kafka version : 2.3.1 (org.apache.kafka.common.utils.AppInfoParser)
[2026-11-21 03:20:01,000] INFO [KafkaServer id=1] started (kafka.server.KafkaServer)
[2026-11-21 03:20:04,900] WARN [ReplicaFetcher replicaId=1, leaderId=2, fetcherId=0] Truncating pay-0 to offset 100 \
below high watermark 170 (kafka.server.ReplicaFetcherThread)
[2026-11-21 03:20:05,000] INFO [Log partition=pay-0, dir=/d] Truncating to offset 100 (kafka.log.Log)
""",
    "broker-2/server.log": """\
[2026-11-21 03:00:00,000] INFO Kafka version : 2.3.1 (org.apache.kafka.common.utils.AppInfoParser)
[2026-11-21 03:00:00,100] INFO [KafkaServer id=2] started (kafka.server.KafkaServer)
[2026-11-21 03:15:00,000] INFO Kafka version : 2.3.1 (org.apache.kafka.common.utils.AppInfoParser)
[2026-11-21 03:15:01,000] INFO [KafkaServer id=2] started (kafka.server.KafkaServer)
[2026-11-21 03:15:02,000] INFO [Partition pay-0 broker=2] pay-0 starts at Leader Epoch 3 from offset 100. Previous \
Leader Epoch was: 2 (kafka.cluster.Partition)
""",
    "broker-3/controller.log": """\
[2026-11-21 03:15:01,800] INFO [Controller id=3] Newly added brokers: 2, deleted brokers: , bounced brokers: , all \
live brokers: 2,3 (kafka.controller.KafkaController)
""",
    "broker-3/state-change.log": """\
[2026-11-21 03:10:00,000] INFO [Controller id=3 epoch=1] Partition pay-0 state changed to \
(Leader:-1,ISR:1,LeaderEpoch:2,ZkVersion:2,ControllerEpoch:1) after removing replica 1 from the ISR as part of \
transition to OfflineReplica (state.change.logger)
[2026-11-21 03:15:01,900] INFO [Controller id=3 epoch=1] Changed partition pay-0 from OfflinePartition to \
OnlinePartition with state LeaderAndIsr(leader=2, leaderEpoch=3, isr=List(2), zkVersion=3) (state.change.logger)
""",
}


STARTS = "INFO [Partition pay-0 broker={}] pay-0 starts at leader epoch {} from offset {} with high watermark {}. "
LEADS = STARTS + "Previous leader epoch was {}. (kafka.cluster.Partition)"
RISES = (
    "DEBUG [Partition pay-0 broker={}] High watermark updated from (offset={}, segment=[0:0]) to (offset={}, "
    "segment=[0:9]) (kafka.cluster.Partition)"
)
ELECTED = (
    "TRACE [Controller id=2 epoch=1] Changed partition pay-0 from OfflinePartition to OnlinePartition with state "
    "LeaderAndIsr(leader={}, leaderEpoch={}, isr=List({}), zkVersion={}) (state.change.logger)"
)
JOINS = "INFO [Partition pay-0 broker=1] ISR updated to [1,2,3] and zkVersion updated to [2] (kafka.cluster.Partition)"
KAFKA_2_5 = {
    "broker-3/replication.log": (
        ("03:00:00,100", LEADS.format(3, 0, 0, 0, -1)), ("03:00:01,000", RISES.format(3, 0, 90)),
        ("03:01:05,000", RISES.format(3, 90, 95)), ("03:02:00,300", LEADS.format(3, 2, 200, 200, 1)),
        ("03:02:01,000", RISES.format(3, 200, 260)),
        ("03:02:09,000", RISES.format(3, 260, 300)), ("03:04:09,000", RISES.format(3, 300, 310)),
    ),
    "broker-1/replication.log": (
        ("03:01:00,200", LEADS.format(1, 1, 100, 90, 0)), ("03:01:01,000", RISES.format(1, 90, 200)),
        ("03:01:30,000", JOINS),
    ),
    "broker-2/replication.log": (
        ("03:00:00,000", ELECTED.format(3, 0, "3, 1, 2", 0)), ("03:01:00,000", ELECTED.format(1, 1, "1, 2", 1)),
        ("03:02:00,200", ELECTED.format(3, 2, "3, 2", 3)),
    ),
}  # fmt: skip
"""Broker 3 leads, is frozen, learns late that it is deposed, follows, which no line says, and leads again."""


@pytest.mark.parametrize("case", ["30-zk282", "31-zk362"])
def test_what_a_cluster_with_zookeeper_lost_is_told(case: str, tmp_path: Path) -> None:
    assert lost(facts_of(unpack(case, tmp_path))) == {"payouts-0": (100, 170)}


def test_a_loss_is_told_in_the_words_of_kafka_2_3(tmp_path: Path) -> None:
    assert lost(facts_of(write(tmp_path, KAFKA_2_3))) == {"pay-0": (100, 170)}


def test_a_leader_of_kafka_2_5_that_leads_again_lost_nothing(tmp_path: Path) -> None:
    """The HW of its second start, and those of its second term, are none of its first one."""
    logs = {name: "".join(f"[2026-11-21 {at}] {text}\n" for at, text in lines) for name, lines in KAFKA_2_5.items()}
    assert {row["severity"] for row in rows(facts_of(write(tmp_path, logs)))} <= {"info"}


def test_a_leaderless_partition_is_told_in_the_words_of_kafka_3_0(tmp_path: Path) -> None:
    """Kafka 3.0 prints a removal from the ISR without the version of the state."""
    removal = KAFKA_2_3["broker-3/state-change.log"].partition("[2026-11-21 03:15")[0].replace(",ZkVersion:2", "")
    folder = write(tmp_path, {"broker-3/state-change.log": removal})
    (partition,) = health_of(folder).values()
    assert (partition["offline"], partition["leader_epoch"], partition["partition_epoch"]) == (True, 2, None)


@pytest.mark.parametrize("case", ["30-zk282", "31-zk362"])
def test_no_isr_change_of_a_cluster_with_zookeeper_lacks_its_cause(case: str, tmp_path: Path) -> None:
    causes = {row["cause"] for row in facts_of(unpack(case, tmp_path)).isr_changes.to_pylist()}
    assert causes == {"controller_fenced", "controlled_shutdown", "caught_up", "election"}


def test_a_partition_without_a_leader_is_offline_since_the_controller_says_so(tmp_path: Path) -> None:
    folder = unpack("31-zk362", tmp_path)
    for file in folder.glob("*/*.log"):
        lines = file.read_text().splitlines(keepends=True)
        file.write_text("".join(line for line in lines if line < "[2026-11-25 13:03:44"))
    health = health_of(folder)
    assert health["payouts-0"]["offline"]
    assert not health["audit.trail-0"]["offline"]


def test_a_missing_broker_of_a_cluster_with_zookeeper_never_makes_a_loss_calm(tmp_path: Path) -> None:
    folder = unpack("31-zk362", tmp_path)
    shutil.rmtree(folder / "broker-2")
    assert any(row["topic"] == "payouts" and row["class"] != "follower_hw_lowered" for row in rows(facts_of(folder)))
