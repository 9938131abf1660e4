"""The cost of watching a cluster, measured in two rounds that write nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

import numpy as np

from generators.cluster.asking.link import silence_library
from generators.cluster.asking.plan import Plan
from generators.cluster.cluster_links import ClusterLinks
from generators.cluster.notes import Notes
from generators.cluster.observing.observer import Observer
from generators.cluster.watcher import Watcher, WatchOptions

BROKER_US = 4
"""Microseconds of a broker's CPU for a partition and request (measured: docs/watch.md)."""
ANSWER_BYTES, TOPIC_BYTES = 27, 3
"""Bytes of a partition, and of a topic without its name, in a ListOffsets answer of version 7."""


@dataclass(frozen=True)
class Cost:
    """The cost of one round, and the rows of an hour of rounds."""

    cluster: str
    interval_s: float
    topics: int
    partitions: int
    replicas: int
    brokers: int
    silent: int
    requests: int
    asked: int
    """The partitions in all requests; those that a broker leads count twice."""
    request_bytes: int
    answer_bytes: int
    seconds: float
    first_rows: int
    later_rows: int

    def lines(self) -> list[str]:
        """The lines to print."""
        hourly = 3600 / self.interval_s
        bytes_a_round = self.request_bytes + self.answer_bytes
        most = (self.replicas + self.brokers) * hourly
        missing = f" ({self.silent} of them did not answer, and are left out below)" if self.silent else ""
        return [
            f"{self.cluster}: {self.partitions:,} partitions of {self.topics:,} topics, {self.replicas:,} replicas on "
            f"{self.brokers:,} brokers{missing}",
            f"a round: {self.requests:,} ListOffsets requests and 1 of metadata, {bytes_a_round / 1e6:,.2f} MB of "
            f"ListOffsets both ways, took {self.seconds:.2f} s",
            f"every {self.interval_s:g} s: {bytes_a_round / self.interval_s / 1e6:,.3f} MB/s, about "
            f"{self.asked / max(1, self.brokers) * BROKER_US / self.interval_s / 1e4:.2f} % of a core of each broker",
            f"rows: {self.first_rows:,} at the start, then {self.later_rows * hourly:,.0f} an hour at the rate of "
            f"the last {self.interval_s:g} s, {most:,.0f} where every replica changes in every round",
        ]


def cost(options: WatchOptions, *, note: Callable[[str], None]) -> Cost:
    """Ask twice, an interval apart. Raises NotAnswering."""
    silence_library(options.debug)
    links = ClusterLinks(options.security, options.topics, options.timeout_s)
    try:
        described = links.bootstrap(options.bootstrap)
        links.connect(described.partitions.brokers)
        cluster = options.cluster or described.partitions.cluster_id
        watcher = Watcher(options, links, Observer(cluster, options.watcher), Notes(note))
        seconds, first = _round(watcher)
        watcher.notes.require_answers(watcher.links.by_broker)
        threading.Event().wait(max(0.0, options.interval_s - seconds))
        seconds, later = _round(watcher)
        return _cost(watcher, cluster, seconds, (first, later))
    finally:
        links.close()


def _round(watcher: Watcher) -> tuple[float, int]:
    """The seconds and rows of one round, however long it takes."""
    began = monotonic()
    watcher.round(began + 4 * watcher.options.timeout_s, threading.Event())
    return monotonic() - began, sum(len(table) for rows in watcher.rows.values() for table in rows)


def _cost(watcher: Watcher, cluster: str, seconds: float, rows: tuple[int, int]) -> Cost:
    seen, plans = watcher.observer.partitions, list(watcher.plans.values())
    hosts = np.unique(watcher.observer.replicas.broker)
    return Cost(
        cluster=cluster,
        interval_s=watcher.options.interval_s,
        topics=len(seen.topics.names) if seen else 0,
        partitions=len(seen) if seen else 0,
        replicas=len(watcher.observer.replicas),
        brokers=len(hosts),
        silent=len(watcher.notes.silent_brokers),
        requests=sum(plan.requests for plan in plans),
        asked=sum(_asked(plan) for plan in plans),
        request_bytes=sum(plan.request_bytes for plan in plans),
        answer_bytes=sum(_answer_bytes(plan) for plan in plans),
        seconds=seconds,
        first_rows=rows[0],
        later_rows=rows[1],
    )


def _asked(plan: Plan) -> int:
    return len(plan.rows) + int(plan.leads.sum())


def _answer_bytes(plan: Plan) -> int:
    names = [len(name) for name in plan.partitions.topics.names]
    topics = [np.unique(plan.partitions.topic[rows]) for rows in (plan.rows, plan.rows[plan.leads])]
    return int(ANSWER_BYTES * _asked(plan) + sum(names[t] + TOPIC_BYTES for one in topics for t in one.tolist()))
