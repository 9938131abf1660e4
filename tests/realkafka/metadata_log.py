"""The cluster's metadata log as Kafka's own tool prints it: the truth about ISRs and leaders."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from realkafka.cluster import Cluster
from realkafka.load import Place

RECORD = re.compile(r"CreateTime: (\d+) .*? payload: (\{.*\})$")
NO_LEADER = -1


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
    """Print the longest metadata log of the stopped cluster into a file."""
    logs = [sorted(broker.data.glob("__cluster_metadata-0/*.log")) for broker in cluster.brokers.values()]
    longest = max(logs, key=lambda files: sum(file.stat().st_size for file in files))
    files = ",".join(map(str, longest))
    out.write_text(cluster.java([cluster.kafka.dump_tool, "--cluster-metadata-decoder", "--files", files]))
    return out


class MetadataLog:
    """What a printed metadata log says of partitions."""

    def __init__(self, path: Path) -> None:
        self.isrs: list[Isr] = []
        self.elections: list[Election] = []
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
            # It counts as a partition epoch where there was something to clear; the faults here never write one.
            raise NotImplementedError(f"a CLEAR_ELR_RECORD at {ts_ms}: partition epochs would be off")

    def _change(self, ts_ms: int, data: dict[str, Any]) -> None:
        state = self._partitions[data["topicId"], data["partitionId"]]
        before = set(state["isr"])
        state["partitionEpoch"] += 1
        state |= {key: value for key, value in data.items() if key in ("isr", "leader", "leaderRecoveryState")}
        place = self._topics[data["topicId"]], data["partitionId"]
        if set(state["isr"]) != before:
            self.isrs.append(Isr(*place, state["partitionEpoch"], tuple(sorted(state["isr"]))))
        if "leader" in data:
            unclean = data.get("leaderRecoveryState", 0) == 1
            self.elections.append(Election(ts_ms, place, data["leader"], unclean))


def _records(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    with path.open() as lines:
        for line in lines:
            if found := RECORD.search(line.rstrip()):
                yield int(found[1]), json.loads(found[2])
