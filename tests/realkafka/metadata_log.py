"""The cluster's metadata log as Kafka's own tool prints it: the truth about ISRs and leaders."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pipelines.local_kafka.cluster import Cluster
from tests.realkafka.load import Place

RECORD = re.compile(r"CreateTime: (\d+) .*? payload: (\{.*\})$")
ELR = ("eligibleLeaderReplicas", "lastKnownElr")


class Isr(NamedTuple):
    """An ISR that the quorum committed, in place of another one."""

    topic: str
    partition: int
    partition_epoch: int
    isr: tuple[int, ...]


class Election(NamedTuple):
    """A leader that the quorum committed, when, and whether uncleanly."""

    ts_ms: int
    place: Place
    leader: int
    unclean: bool


def dump(cluster: Cluster, out: Path) -> Path:
    """Print what the quorum of the stopped cluster committed of the metadata log.

    That is the log which two of three nodes have: the longest may end in what its controller alone wrote.
    """
    logs = [sorted(broker.data.glob("__cluster_metadata-0/*.log")) for broker in cluster.brokers.values()]
    by_length = sorted(logs, key=lambda files: sum(file.stat().st_size for file in files))
    out.write_text(cluster.dump(*by_length[len(logs) // 2]))
    return out


class MetadataLog:
    """What a printed metadata log says of partitions."""

    def __init__(self, path: Path) -> None:
        self.isrs: list[Isr] = []
        self.elections: list[Election] = []
        self.removals: list[tuple[int, int]] = []
        """When a broker was taken out of an ISR, and which."""
        self._topics: dict[str, str] = {}
        self._partitions: dict[tuple[str, int], dict[str, Any]] = {}
        for ts_ms, record in _records(path):
            self._take(ts_ms, record["type"], record["data"])

    def _take(self, ts_ms: int, kind: str, data: dict[str, Any]) -> None:
        if kind == "TOPIC_RECORD":
            self._topics[data["topicId"]] = data["name"]
        elif kind == "PARTITION_RECORD":
            self._partitions[data["topicId"], data["partitionId"]] = dict(data)
        elif kind == "PARTITION_CHANGE_RECORD":
            self._change(ts_ms, data)
        elif kind == "CLEAR_ELR_RECORD":
            self._clear_elr(data["topicName"])

    def _clear_elr(self, topic: str) -> None:
        """A partition epoch where there was an ELR or a last known one to clear; an empty name means all topics."""
        for (topic_id, _), state in self._partitions.items():
            if topic in ("", self._topics[topic_id]) and any(state.get(key) for key in ELR):
                state["partitionEpoch"] += 1
                state |= {key: [] for key in ELR}

    def _change(self, ts_ms: int, data: dict[str, Any]) -> None:
        state = self._partitions[data["topicId"], data["partitionId"]]
        before = set(state["isr"])
        state["partitionEpoch"] += 1
        state |= {key: value for key, value in data.items() if key in ("isr", *ELR)}
        self.removals += [(ts_ms, broker) for broker in before - set(state["isr"])]
        place = self._topics[data["topicId"]], data["partitionId"]
        if set(state["isr"]) != before:
            self.isrs.append(Isr(*place, state["partitionEpoch"], tuple(sorted(state["isr"]))))
        if "leader" in data:
            unclean = data.get("leaderRecoveryState", 0) == 1
            self.elections.append(Election(ts_ms, place, data["leader"], unclean))


def _records(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    with path.open() as lines:
        for line in lines:
            if "skipping" in line:
                raise ValueError(f"the tool does not know a record of {path}: {line.strip()}")
            if found := RECORD.search(line.rstrip()):
                yield int(found[1]), json.loads(found[2])
