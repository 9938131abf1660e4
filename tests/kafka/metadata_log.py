"""The printed metadata log, read without the parser: every committed ISR change of every partition."""

import gzip
import json
import re
from typing import NamedTuple

RECORD = re.compile(r"CreateTime: (\d+) .*? payload: (\{.*\})$")


class IsrChange(NamedTuple):
    topic: str
    partition: int
    partition_epoch: int
    isr: tuple[int, ...]


def records(folder):
    """The payloads of `metadata.dump.gz`, in order."""
    with gzip.open(folder / "metadata.dump.gz", "rt") as lines:
        return [json.loads(m[2]) for line in lines if (m := RECORD.search(line.rstrip()))]


def isr_changes(folder):
    """Changes of topics without those of Kafka itself. Every change record is a partition epoch, and so is every
    CLEAR_ELR_RECORD of a partition that had an eligible or last known leader to clear."""
    topics, partitions, found = {}, {}, []
    for record in records(folder):
        data = record["data"]
        place = data.get("topicId"), data.get("partitionId")
        if record["type"] == "TOPIC_RECORD":
            topics[data["topicId"]] = data["name"]
        elif record["type"] == "PARTITION_RECORD":
            partitions[place] = {"epoch": data["partitionEpoch"], "isr": data["isr"], "elr": _eligible(data)}
        elif record["type"] == "PARTITION_CHANGE_RECORD":
            now = partitions[place]
            now["epoch"] += 1
            if "eligibleLeaderReplicas" in data or "lastKnownElr" in data:
                now["elr"] = _eligible(data)
            isr = now["isr"] if data.get("isr") is None else data["isr"]
            if set(isr) != set(now["isr"]):
                now["isr"] = isr
                found.append(IsrChange(topics[place[0]], place[1], now["epoch"], tuple(sorted(now["isr"]))))
        elif record["type"] == "CLEAR_ELR_RECORD":
            for (topic_id, _), now in partitions.items():
                if now["elr"] and data.get("topicName") in ("", None, topics[topic_id]):
                    now["epoch"], now["elr"] = now["epoch"] + 1, False
    return [change for change in found if not change.topic.startswith("__")]


def _eligible(data):
    return bool(data.get("eligibleLeaderReplicas") or data.get("lastKnownElr"))
