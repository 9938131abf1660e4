"""What many watchers on one host take: `python -m tests.cluster.fleet --clusters 200 --down 20 --hang 5`.

The clusters are fake ones of three brokers in a process of their own; the watchers ask them at the shipped interval and
write nothing. After a while some clusters go down at once, and some hang. Prints how long rounds of the others took
before and after, when the gone ones were seen, and the threads and sockets of the watchers' process.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import pyarrow.compute as pc

from generators.cluster.cluster_links import ClusterLinks
from generators.cluster.controllers import Controllers
from generators.cluster.notes import Notes
from generators.cluster.observing.observer import Observer
from generators.cluster.watch import Schedule
from generators.cluster.watcher import Watcher, WatchOptions
from schemas.event_types import NO_ANSWER
from tests.cluster.fake_kafka import FakeCluster
from tests.cluster.measure import cpu_s

PARTITIONS = 6


def serve(clusters, pipe):
    with ExitStack() as stack:
        fakes = [stack.enter_context(FakeCluster(3)) for _ in range(clusters)]
        for fake in fakes:
            fake.topic("orders", *([1 + k % 3, 1 + (k + 1) % 3, 1 + (k + 2) % 3] for k in range(PARTITIONS)))
        pipe.send([fake.bootstrap() for fake in fakes])
        down, hang = pipe.recv()
        for fake in fakes[:down]:
            for broker in fake.brokers:
                fake.stop(broker)
        for fake in fakes[down : down + hang]:
            for broker in fake.brokers.values():
                broker.hung = True
        pipe.send(time.monotonic())
        pipe.recv()


class Watched:
    """One watcher on a thread: how long each round took, and when the first brokers were seen not to answer."""

    def __init__(self, name, bootstrap, interval_s, stop):
        self.rounds, self.gone = [], {}
        options = WatchOptions((bootstrap,), name, interval_s=interval_s)
        links = ClusterLinks(options.security, options.topics, options.timeout_s)
        links.connect(links.bootstrap(options.bootstrap).partitions.brokers)
        observer = Observer(name, options.watcher, interval_s)
        self.watcher = Watcher(options, links, observer, Notes(lambda line: None), Controllers(options.security))
        self._schedule, self._stop = Schedule(interval_s, stop), stop
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        for _ in self._schedule.ticks():
            began = time.monotonic()
            self.watcher.round(self._schedule.next_at, self._stop, self._look)
            self._look()
            self.rounds.append((began, time.monotonic() - began))
        self.watcher.links.close()
        self.watcher.controllers.close()

    def _look(self):
        for broker, tables in self.watcher.rows.items():
            told = [table["detail"] for table in tables if "detail" in table.column_names]
            if any(pc.any(pc.starts_with(detail, NO_ANSWER)).as_py() for detail in told):
                self.gone.setdefault(broker, time.monotonic())


def sockets():
    """How many sockets this process has open."""
    links = (file.readlink() for file in Path("/proc/self/fd").iterdir() if file.is_symlink())
    return sum(str(link).startswith("socket:") for link in links)


def load(cpu, since):
    """The threads and sockets of this process, and its cores since a moment at which it had used so many seconds."""
    return f"{threads()} threads, {sockets()} sockets, {(cpu_s() - cpu) / (time.monotonic() - since):.2f} cores"


def threads():
    return len(list(Path("/proc/self/task").iterdir()))


def took(watchers, since):
    """The half and the most of the seconds that rounds took which began since a moment."""
    each = [seconds for one in watchers for began, seconds in one.rounds if began >= since]
    return f"{median(each):.2f} s (half), {max(each):.2f} s (most)" if each else "none"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=200)
    parser.add_argument("--down", type=int, default=20)
    parser.add_argument("--hang", type=int, default=5)
    parser.add_argument("--interval", type=float, default=5.0)
    parser.add_argument("--seconds", type=float, default=40)
    chosen = parser.parse_args()
    ours, theirs = multiprocessing.Pipe()
    multiprocessing.Process(target=serve, args=(chosen.clusters, theirs), daemon=True).start()
    stop, began = threading.Event(), time.monotonic()
    each = [Watched(f"c{k}", at, chosen.interval, stop) for k, at in enumerate(ours.recv())]
    print(f"{len(each)} watchers begun in {time.monotonic() - began:.1f} s")
    before, cpu = time.monotonic(), cpu_s()
    time.sleep(chosen.seconds)
    print(f"before: {load(cpu, before)}; rounds took {took(each, before)}")
    ours.send((chosen.down, chosen.hang))
    fault, cpu = ours.recv(), cpu_s()
    time.sleep(chosen.seconds)
    down, hung = each[: chosen.down], each[chosen.down : chosen.down + chosen.hang]
    others = each[chosen.down + chosen.hang :]
    print(f"after: {load(cpu, fault)}; rounds of the others took {took(others, fault)}")
    for name, some in (("down", down), ("hanging", hung)):
        seen = sorted(at - fault for one in some for at in one.gone.values())
        print(f"{name}: {len(seen)} of {3 * len(some)} brokers seen, after {median(seen):.1f} s (half), "
              f"{seen[-1]:.1f} s (most)" if seen else f"{name}: none seen")  # fmt: skip
    print(f"others: {sum(len(one.gone) for one in others)} brokers seen not to answer; load {os.getloadavg()[0]:.1f}")
    stop.set()


if __name__ == "__main__":
    main()
