"""What a watcher costs the brokers: `python -m tests.realkafka.cost --topics 100 --partitions 20 --seconds 30`.

CPU time of the brokers' processes with a watcher beside them, less that without, in turns under the same load, by
partitions and polls. What is counted is each broker's leaders and followers: all of them are asked for.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from pipelines.lake.bronze import read_events
from pipelines.local_kafka.cluster import BROKERS, Cluster
from pipelines.local_kafka.processes import Journal, end, start, wait_until
from pipelines.local_kafka.versions import DEFAULT, version
from tests.realkafka.beside import ROOT
from tests.realkafka.story import SETTINGS

TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
REPLICAS = 3
TURNS = 3
SETTLED_AFTER_S = 20


class Spell(NamedTuple):
    """Some time: CPU of the brokers, of the watcher, and how long it was, in seconds."""

    brokers: float
    watcher: float
    seconds: float


def cpu_s(pid: int) -> float:
    """CPU time that a process has used so far, in user and system mode."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_A_SECOND


def measured(cluster: Cluster, seconds: float, watcher: int | None) -> Spell:
    """What is used in some seconds."""

    def used() -> tuple[float, float]:
        brokers = [broker.process.pid for broker in cluster.brokers.values() if broker.process is not None]
        return sum(map(cpu_s, brokers)), 0.0 if watcher is None else cpu_s(watcher)

    before, began = used(), time.monotonic()
    time.sleep(seconds)
    after = used()
    return Spell(after[0] - before[0], after[1] - before[1], time.monotonic() - began)


def write(bootstrap: str, topics: list[str], partitions: int, stop: threading.Event) -> None:
    """A record into every tenth partition every second, the next ones each time."""
    producer, turn = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0}), 0
    while not stop.wait(1.0):
        for k in range(turn % 10, len(topics) * partitions, 10):
            producer.produce(topics[k // partitions], b"x" * 150, partition=k % partitions)
        producer.poll(0)
        turn += 1
    producer.flush(10)


def spells(cluster: Cluster, folder: Path, lake: str, seconds: float, interval_s: float) -> tuple[list[Spell], ...]:
    """(without, with a watcher), in turns."""
    without, beside = [], []
    command = [sys.executable, "-m", "hwmark", "watch", "--bootstrap", cluster.bootstrap, "--cluster", "cost"]
    command += ["--interval", f"{interval_s:g}s", "--lake", lake]
    for _ in range(TURNS):
        without.append(measured(cluster, seconds, None))
        process = start(command, folder / "watch.txt", {"PYTHONPATH": str(ROOT)})
        try:
            time.sleep(5 + 2 * interval_s)
            beside.append(measured(cluster, seconds, process.pid))
        finally:
            end(process, 20, signal.SIGTERM)
    return without, beside


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--interval", type=float, default=1.0)
    parser.add_argument("--idle", action="store_true", help="write nothing: what a poll costs shows better")
    chosen = parser.parse_args()
    folder, stop = Path(tempfile.mkdtemp(prefix="hwmark-cost-")), threading.Event()
    cluster = Cluster(folder, version(DEFAULT), Journal(folder), SETTINGS)
    lake, names = str(folder / "lake"), [f"topic-{k:03}" for k in range(chosen.topics)]
    try:
        cluster.start()
        cluster.wait_until_up()
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        for done in admin.create_topics([NewTopic(name, chosen.partitions, REPLICAS) for name in names]).values():
            done.result(120)
        wait_until(
            lambda: (seen := cluster.described()) is not None and len(seen.topics.names) == len(names), 60, "all"
        )
        if not chosen.idle:
            load = (cluster.bootstrap, names, chosen.partitions, stop)
            threading.Thread(target=write, args=load, daemon=True).start()
        time.sleep(SETTLED_AFTER_S)
        without, beside = spells(cluster, folder, lake, chosen.seconds, chosen.interval)
        report(without, beside, lake, chosen.topics * chosen.partitions, chosen.interval)
    finally:
        stop.set()
        cluster.stop_all()


def report(without: list[Spell], beside: list[Spell], lake: str, partitions: int, interval_s: float) -> None:
    """What a poll costs, and what the lake grows by."""
    cores = [[spell.brokers / spell.seconds for spell in group] for group in (without, beside)]
    more = median(cores[1]) - median(cores[0])
    answers = partitions * REPLICAS / interval_s
    events = read_events(lake)
    size = sum(file.stat().st_size for file in Path(lake).rglob("*.parquet"))
    log = sum(file.stat().st_size for file in Path(lake).rglob("*.json"))
    rounds = pc.sum(pc.equal(events["event_type"].cast(pa.string()), "progress")).as_py() / len(BROKERS)
    print(f"{partitions:,} partitions x {REPLICAS}, every {interval_s:g} s")
    print(f"brokers without {sorted(cores[0])}, with {sorted(cores[1])} cores")
    print(f"brokers: {more:.3f} of a core more, {more / answers * 1e6:.1f} us a replica and poll")
    print(f"the watcher: {median(s.watcher / s.seconds for s in beside):.3f} of a core")
    rows = len(events)
    print(f"lake: {rows:,} rows, {size:,} bytes and {log:,} of Delta's log in {rounds:.0f} rounds")
    print(f"an hour: {size / rounds * 3600 / interval_s / 1e6:.1f} MB of rows ({size / rows:.1f} bytes a row)")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
