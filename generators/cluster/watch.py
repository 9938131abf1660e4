"""`hwmark watch`: rounds on a schedule, their rows to the lake, until it is to stop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from time import monotonic, time_ns

import numpy as np

from generators.cluster.asking.link import silence_library
from generators.cluster.asking.problems import NotAnswering
from generators.cluster.cluster_links import ClusterLinks
from generators.cluster.controllers import Controllers
from generators.cluster.notes import Notes
from generators.cluster.observing.observer import Observer
from generators.cluster.watcher import Watcher, WatchOptions
from generators.cluster.writer import BronzeWriter
from pipelines.lake.file_systems import StorageOptions
from pipelines.lake.roles import hold


class Schedule:
    """Ticks at begin, begin + interval, ...; those that pass while a round goes on are skipped.

    `steady` returns seconds of a monotonic clock, `wait` waits so many seconds and returns True when it is to stop.
    """

    def __init__(
        self,
        interval_s: float,
        stop: threading.Event,
        steady: Callable[[], float] = monotonic,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        self.interval_s, self._stop, self._steady = interval_s, stop, steady
        self._wait = wait or stop.wait
        self._begin = steady()
        self._tick = -1

    @property
    def next_at(self) -> float:
        """The time of the next tick on the monotonic clock."""
        return self._begin + (self._tick + 1) * self.interval_s

    def ticks(self) -> Iterator[int]:
        """Yield at each tick the number of ticks skipped before it, until the watcher is to stop."""
        while not self._stop.is_set():
            skipped = max(0, int((self._steady() - self.next_at) // self.interval_s))
            self._tick += skipped
            if self._wait(max(0.0, self.next_at - self._steady())):
                return
            self._tick += 1
            yield skipped


WRITTEN_WITHIN_S = 20.0
"""How long a write to the lake may take when the watcher is to stop."""
LAKE_AWAY = "there was no more room in memory while the lake was away"


@dataclass
class WatchSummary:
    """The result of a watcher's run."""

    cluster: str
    rounds: int = 0
    incomplete: int = 0
    skipped: int = 0
    rows: int = 0
    unwritten_bytes: int = 0

    def line(self) -> str:
        """The result in one line."""
        short = f", {self.incomplete} of them incomplete" if self.incomplete else ""
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        return f"{self.cluster}: {self.rounds:,} rounds{short}{skipped}, {self.rows:,} rows"


def watch(
    options: WatchOptions,
    lake: str,
    *,
    note: Callable[[str], None],
    status: Callable[[str], None] | None = None,
    stop: threading.Event | None = None,
    storage_options: StorageOptions | None = None,
) -> WatchSummary:
    """Watch a cluster until `stop` is set; `note` is called with lines for a person, `status` after each round.

    Raises NotAnswering if no broker answers at the start, RoleHeld if another process watches the cluster
    into this lake.
    """
    silence_library(options.debug)
    stop = stop or threading.Event()
    with ExitStack() as ends:
        links = ClusterLinks(options.security, options.topics, options.timeout_s)
        ends.callback(links.close)
        described = links.bootstrap(options.bootstrap)
        cluster = options.cluster or described.partitions.cluster_id
        if not cluster:
            raise NotAnswering("the cluster has no id of its own: name it with --cluster")
        held = ends.enter_context(hold(lake, f"watch:{cluster}", storage_options))
        notes = Notes(note)
        links.connect(described.partitions.brokers)
        controllers = Controllers(options.security)
        ends.callback(controllers.close)
        watcher = Watcher(options, links, Observer(cluster, options.watcher, options.interval_s), notes, controllers)
        ends.callback(watcher.metadata.close)
        writer = BronzeWriter(
            lake,
            f"{cluster}/{options.watcher}",
            held,
            note,
            buffer_bytes=options.buffer_bytes,
            storage_options=storage_options,
        )
        summary = WatchSummary(cluster)
        try:
            _rounds(watcher, writer, summary, stop, status or (lambda _: None))
        finally:
            summary.unwritten_bytes = writer.close(WRITTEN_WITHIN_S)
            summary.rows = writer.rows
        if writer.failure is not None:
            raise writer.failure
        return summary


def _rounds(
    watcher: Watcher, writer: BronzeWriter, summary: WatchSummary, stop: threading.Event, status: Callable[[str], None]
) -> None:
    schedule = Schedule(watcher.options.interval_s, stop)
    for skipped in schedule.ticks():
        began, began_us = monotonic(), time_ns() // 1000
        watcher.notes.skipped(skipped, schedule.interval_s)
        counts = list[int]()
        put = partial(_put, watcher, writer, began_us, counts)
        complete = watcher.round(schedule.next_at, stop, put)
        watcher.notes.require_answers(watcher.links.by_broker)
        _say_what_is_watched(watcher)
        put()
        if writer.failure is not None:
            return
        summary.rounds, summary.skipped = summary.rounds + 1, summary.skipped + skipped
        summary.incomplete += not complete
        rows = sum(counts)
        status(f"{summary.line()}; the last took {monotonic() - began:.2f} s and gave {rows:,} rows")


def _put(watcher: Watcher, writer: BronzeWriter, began_us: int, counts: list[int]) -> None:
    """Hand the new rows to the writer, and add their number to `counts`."""
    tables = [table for rows in watcher.rows.values() for table in rows]
    counts.append(sum(len(table) for table in tables))
    if not writer.put(tables):
        watcher.notes.once("there is no more room for rows in memory: rounds are dropped until the lake is back")
        watcher.observer.dropped(began_us, LAKE_AWAY)
        watcher.settings.forget()


def _say_what_is_watched(watcher: Watcher) -> None:
    seen = watcher.observer.partitions
    if seen is not None and not len(seen):
        watcher.notes.once("no topic is watched: none fits, or none may be described (allow DESCRIBE on the topics)")
    if not watcher.notes.answered or seen is None:
        return
    partitions, hosts = len(seen), len(np.unique(watcher.observer.replicas.broker))
    if not watcher.said:
        watcher.said = True
        watcher.notes.say(
            f"watching {partitions:,} partitions of {len(seen.topics.names):,} topics on {hosts} brokers; when the "
            "leaders and ISRs of this first round began, and what happened before it, is not known"
        )
