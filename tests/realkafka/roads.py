"""One fault, two roads to a verdict: what a watcher samples, and what the brokers log."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from pipelines.lake.bronze import read_events
from pipelines.local_kafka.cluster import BROKERS, Cluster
from pipelines.local_kafka.processes import Journal, end, start, wait_until
from pipelines.local_kafka.versions import Version
from pipelines.replication import Facts, replay
from tests.realkafka.beside import CLUSTER, ROOT
from tests.realkafka.faults import FAULTS, SETTINGS
from tests.realkafka.load import Log, Place, Producers, Reader, Topic, read_back

HWMARK = [sys.executable, "-m", "hwmark"]
INTERVAL_S = 1.0
CALM_S = 4.0
ASIDE = "aside"
"""A topic on one broker, so that some broker has rounds whatever happens to the others."""
LATE_FACTOR = 1.5
"""A round that comes so much later than it should leaves what is said of the intervals unjudged."""
REMOVED = re.compile(r"\[Partition (\S+)-(\d+) broker=\d+\] Shrinking ISR (.*)")
LAST_CAUGHT_UP = re.compile(r"\(brokerId: (\d+), endOffset: \d+, lastCaughtUpTimeMs: (\d+)\)")

Row = dict[str, Any]


@dataclass
class Roads:
    """What happened, and what each road says of it."""

    name: str
    cluster: Cluster
    sampled: Facts
    logged: Facts
    rounds: dict[int, list[int]]
    """By broker when it had answered in full, in epoch milliseconds."""
    gone: dict[Place, tuple[int, int]]
    """First and last offset of what clients lost of a partition."""
    acked: dict[Place, int]
    actions: list[str] = field(default_factory=list)

    def falls(self, facts: Facts) -> dict[Place, list[Row]]:
        """The latest revision of every fall of a HW that is one of loss, or not excluded, by partition."""
        last = {row["regression_id"]: row for row in facts.hw_regressions.to_pylist()}
        found: dict[Place, list[Row]] = {}
        for row in last.values():
            if row["lost_from"] is not None or row["class"] == "loss_not_excluded":
                found.setdefault((row["topic"], row["partition"]), []).append(row)
        return found

    def caught_up(self) -> dict[tuple[Place, int], list[int]]:
        """By partition and broker that its leader removed by the lag rule: when it was last caught up, in epoch ms."""
        found: dict[tuple[Place, int], list[int]] = {}
        for broker in self.cluster.brokers.values():
            for topic, partition, removed in REMOVED.findall(broker.replication_log()):
                for replica, at in LAST_CAUGHT_UP.findall(removed):
                    found.setdefault(((topic, int(partition)), int(replica)), []).append(int(at))
        return found

    def frozen(self) -> list[tuple[int, int]]:
        """(broker, when, epoch ms) of each that was frozen."""
        actions = map(json.loads, self.cluster.journal.path.read_text().splitlines())
        return [(action["broker"], action["ts_ms"]) for action in actions if action["action"] == "freeze"]

    def longest_pause(self, begin_ms: float, end_ms: float) -> int:
        """The longest pause between two rounds that overlaps this time, in milliseconds, of the broker that was asked
        most steadily: others may have been away."""
        pauses = {
            broker: max((b - a for a, b in pairwise(times) if a <= end_ms and b >= begin_ms), default=0)
            for broker, times in self.rounds.items()
        }
        return min(pauses.values())

    def late(self, begin_ms: float, end_ms: float) -> str:
        """Why what is claimed of intervals cannot be judged in this time; empty where it can."""
        longest = self.longest_pause(begin_ms, end_ms)
        if longest <= LATE_FACTOR * INTERVAL_S * 1000:
            return ""
        return f"this machine was late: {longest} ms between two rounds of {INTERVAL_S * 1000:.0f} ms"


def play(name: str, kafka: Version, folder: Path) -> Iterator[Roads]:
    """Does a fault under load with a watcher beside the brokers, and reads their logs afterwards."""
    fault, cluster = FAULTS[name], Cluster(folder, kafka, Journal(folder), SETTINGS)
    topic = Topic(fault.topic.name, len(fault.topic.assignment), 20)
    producers, said = Producers(cluster.bootstrap, [topic]), list[str]()
    lake, logs, process = str(folder / "lake"), str(folder / "logs-lake"), None
    try:
        cluster.start()
        cluster.wait_until_up()
        cluster.create_topic(topic.name, [list(one) for one in fault.topic.assignment], **fault.topic.config)
        cluster.create_topic(ASIDE, [[BROKERS[-1]]])
        command = [*HWMARK, "watch", "--bootstrap", cluster.bootstrap, "--cluster", CLUSTER, "--lake", lake]
        environment = {"HWMARK_WATCH__TIMEOUT": "2s", "PYTHONPATH": str(ROOT)}
        process = start([*command, "--interval", f"{INTERVAL_S:g}s"], folder / "watch.txt", environment)
        hosts = {broker for one in [*fault.topic.assignment, [BROKERS[-1]]] for broker in one}
        wait_until(lambda: _rounds(lake).keys() >= hosts, 60, "the first rounds")
        reader = Reader(cluster.bootstrap, [topic])
        reader.start()
        producers.start()
        time.sleep(CALM_S)
        fault.play(cluster, topic.name, said.append)
        time.sleep(CALM_S)
        producers.stop()
        final = read_back(cluster.bootstrap, [topic])
        reader.stop()
        time.sleep(2.5 * INTERVAL_S)
        end(process, 20, signal.SIGTERM)
        cluster.stop_all()
        ingest = ["ingest", "logs", *map(str, cluster.log_directories), "--cluster", CLUSTER, "--lake", logs]
        subprocess.run([*HWMARK, *ingest], check=True, cwd=ROOT, capture_output=True)
        facts = replay(read_events(lake)), replay(read_events(logs))
        acked = {place: len(records) for place, records in producers.acked.items()}
        yield Roads(name, cluster, *facts, _rounds(lake), _gone(producers, reader, final), acked, said)
    finally:
        producers.stop()
        if process is not None:
            end(process, 5)
        cluster.stop_all()


def _gone(producers: Producers, reader: Reader, final: dict[Place, Log]) -> dict[Place, tuple[int, int]]:
    """What was acknowledged, or shown to a consumer, and is not there in the end."""
    found = {}
    for place, log in final.items():
        committed = producers.acked[place] | reader.shown[place]
        if missing := [offset for offset, value in committed if log.get(offset) != value]:
            found[place] = min(missing), max(missing)
    return found


def _rounds(lake: str) -> dict[int, list[int]]:
    try:
        rows = read_events(lake).to_pylist()
    except FileNotFoundError:
        return {}
    found: dict[int, list[int]] = {}
    for row in rows:
        if row["event_type"] == "progress":
            found.setdefault(row["broker_id"], []).append(ms(row["ts"]))
    return {broker: sorted(times) for broker, times in found.items()}


def ms(ts: datetime) -> int:
    """Epoch milliseconds of a time."""
    return round(ts.timestamp() * 1000)
