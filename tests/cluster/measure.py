"""What a watcher costs: `python -m tests.cluster.measure --partitions 20000 --interval 1 --changed 0.1 --seconds 20`.

The brokers are fake ones in a process of their own. They answer a request that they have had before from memory, with
other offsets for the share of partitions that is to change. With --run 10s, `hwmark run --interval 10s` goes on beside
it, and how far gold is behind is looked at every second.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from statistics import quantiles
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from generators.cluster.asking.round import Pace
from generators.cluster.watch import watch
from generators.cluster.watcher import WatchOptions
from pipelines.errors import UsageError
from pipelines.lake.bronze import bronze, read_events
from pipelines.lake.lake import Lake
from pipelines.setup import jars_dir
from pipelines.streaming.sinks.gauges import reconstructed_to
from tests.bench.processes import cpu_seconds, watching
from tests.cluster import fake_kafka
from tests.cluster.fake_kafka import FakeCluster

PARTITIONS_OF_A_TOPIC = 20
VARIANTS = 4
LIST_OFFSETS = 2


class RememberingConnection(fake_kafka._Connection):
    """Answers a request that it knows from memory, each time with the next of a few variants."""

    remembered: ClassVar[dict[bytes, list[bytes]]] = {}
    changed = 0.1

    async def serve(self):
        turns = {}
        while True:
            head = await self.reader.readexactly(4)
            frame = await self.reader.readexactly(int.from_bytes(head))
            key = bytes([self.broker.broker_id]) + frame[:4] + frame[8:]
            if key not in self.remembered:
                count = VARIANTS if frame[1] == LIST_OFFSETS else 1
                self.remembered[key] = [self.encoded(frame, variant) for variant in range(count)]
            turns[key] = (turns.get(key, -1) + 1) % len(self.remembered[key])
            answer = self.remembered[key][turns[key]]
            self.writer.write(answer[:4] + frame[4:8] + answer[8:])
            await self.writer.drain()

    def encoded(self, frame, variant):
        kind, version = int.from_bytes(frame[:2]), int.from_bytes(frame[2:4])
        request = fake_kafka.REQUESTS[kind].decode(frame, version=version, header=True)
        response = getattr(self, f"_{kind}")(request, version)
        if kind == LIST_OFFSETS:
            for topic in response.topics:
                for k, partition in enumerate(topic.partitions):
                    partition.offset += variant if k < self.changed * PARTITIONS_OF_A_TOPIC else 0
        response.API_VERSION = version
        response.with_header(correlation_id=0)
        return response.encode(header=True, framed=True)


def serve(brokers, partitions, changed, pipe):
    fake_kafka._Connection = RememberingConnection
    RememberingConnection.changed = changed
    with FakeCluster(brokers) as cluster:
        nodes = sorted(cluster.brokers)
        for k in range(partitions // PARTITIONS_OF_A_TOPIC):
            places = [[nodes[(k + p + r) % brokers] for r in range(3)] for p in range(PARTITIONS_OF_A_TOPIC)]
            for partition in cluster.topic(f"topic-of-somebody-{k:05}", *places).partitions:
                partition.write(1_000_000, 1_000_000)
        pipe.send(cluster.bootstrap())
        pipe.recv()
        pipe.send(resource.getrusage(resource.RUSAGE_SELF).ru_utime)


class Reconstruction:
    """`hwmark run` as a process beside the watcher; counted from `warm` on."""

    def __init__(self, lake, interval):
        bronze(lake)
        command = [sys.executable, "-m", "hwmark", "run", "--lake", lake, "--interval", interval]
        self._log = open(os.path.join(lake, "run.log"), "w")  # noqa: SIM115
        environment = os.environ | {"HWMARK_RUN__JARS_DIR": jars_dir() or ""}
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log, env=environment)
        self._lake, self.behind, self._peak = Lake(lake), [], 0

    def warm(self):
        self._at, self._cpu = time.monotonic(), cpu_seconds(self._process.pid)
        threading.Thread(target=self._look, daemon=True).start()

    def _look(self):
        with watching(self._process.pid, every_s=5.0) as self._peak:
            while self._process.poll() is None:
                try:
                    to = min(reconstructed_to(self._lake).values(), default=None)
                except (OSError, UsageError):
                    to = None
                self.behind.append((time.monotonic() - self._at, time.time() - to.timestamp() if to else None))
                time.sleep(1)

    def counted(self):
        elapsed, cpu = time.monotonic() - self._at, cpu_seconds(self._process.pid) - self._cpu
        known = [behind for _, behind in self.behind if behind is not None]
        p50, p95 = (quantiles(known, n=20)[k] for k in (9, 18))
        return (
            f"run beside it: {cpu / elapsed:.2f} cores, {self._peak() >> 20} MB at most; gold is behind the clock by "
            f"{p50:.1f} s (p50), {p95:.1f} s (p95), {max(known):.1f} s (most), {known[-1]:.1f} s (at the end)"
        )

    def end(self):
        self._process.terminate()
        status = self._process.wait()
        self._log.close()
        return f"run ended with {status}: {Path(self._log.name).read_text().splitlines()[-1:]}"


@contextmanager
def reconstructing(lake, interval):
    """`hwmark run` beside, where it is asked for."""
    beside = Reconstruction(lake, interval) if interval else None
    try:
        yield beside
    finally:
        if beside:
            print(beside.end())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=20_000)
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--interval", type=float, default=1.0)
    parser.add_argument("--changed", type=float, default=0.1)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--warm", type=int, default=6, help="rounds that are not counted; more with --run")
    parser.add_argument("--run", metavar="10s", help="the interval of a `hwmark run` beside it")
    chosen = parser.parse_args()
    ours, theirs = multiprocessing.Pipe()
    brokers = multiprocessing.Process(
        target=serve, args=(chosen.brokers, chosen.partitions, chosen.changed, theirs), daemon=True
    )
    brokers.start()
    bootstrap = ours.recv()
    lines = []
    with tempfile.TemporaryDirectory() as lake, reconstructing(lake, chosen.run) as beside:
        stop, warm = threading.Event(), {}

        def status(line):
            lines.append((time.monotonic(), line))
            if len(lines) == chosen.warm:  # the first answer of each variant is encoded by the brokers
                warm["at"], warm["cpu"] = time.monotonic(), cpu_s()
                warm["wall_us"] = time.time_ns() // 1000
                if beside:
                    beside.warm()
                threading.Timer(chosen.seconds, stop.set).start()

        options = WatchOptions(
            bootstrap=(bootstrap,), cluster="fake", interval_s=chosen.interval, timeout_s=300.0, pace=Pace()
        )
        summary = watch(options, lake, note=print, status=status, stop=stop)
        elapsed, cpu = time.monotonic() - warm["at"], cpu_s() - warm["cpu"]
        if beside:
            print(beside.counted())
        events = read_events(lake)
        progress = events.filter(pc.equal(events["event_type"], "progress"))["ts"].cast(pa.int64()).to_numpy()
        rounds = int((progress > warm["wall_us"]).sum()) / chosen.brokers
        size = sum(file.stat().st_size for file in Path(lake).rglob("*.parquet"))
        print(lines[-1][1])
        print(f"{summary.rows:,} rows; {len(events):,} in the lake, {size:,} bytes")
        print(
            f"{chosen.partitions:,} x 3 every {chosen.interval:g} s, {chosen.changed:.0%} changed: {rounds:.1f} "
            f"complete rounds in {elapsed:.1f} s, {cpu / rounds:.3f} s CPU each ({cpu / elapsed:.0%} of a core), "
            f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MB at most"
        )
        ours.send(None)


def cpu_s():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
