"""A watcher of a simulated cluster: what it would be answered, cut from the cluster's own state at random instants.

Rounds come at random intervals and some of them fail; brokers that are down or frozen do not answer, others now and
then not for one partition. HW and LEO are read some milliseconds apart, the HW first. The real Observer makes the rows.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from generators.cluster.metadata.lists import Lists
from generators.cluster.metadata.partitions import BrokerAddress, Partitions, Topics
from generators.cluster.observing.answers import UNKNOWN, Answer, Instant
from generators.cluster.observing.observer import Observer
from generators.simulator.cluster.settings import MS
from tests.unit.replication.bronze import events_of

if TYPE_CHECKING:
    from generators.simulator.cluster.replica import Replica
    from generators.simulator.cluster.simulation import Simulation
    from generators.simulator.cluster.simulation_event import SimulationEvent

NOT_AVAILABLE = 3
"""UNKNOWN_TOPIC_OR_PARTITION"""


class SimulatedWatcher:
    """Observes a simulation whose state it reads; `events` are the rows it has written."""

    def __init__(self, cluster: str, seed: int, holes: float = 0.05) -> None:
        self.random, self.holes, self.cluster = Random(f"watcher {seed}"), holes, cluster
        self.observer = Observer(cluster, "sim")
        self.every_ms = self.random.choice((300, 1_000, 2_500))
        self._rows: list[dict[str, Any]] = []
        self._numbers: Counter[tuple[Any, ...]] = Counter()
        self._seen: Partitions | None = None

    def follow(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self._again()

    def observe(self, event: SimulationEvent) -> None:
        """Nothing is learnt from what brokers print."""

    def events(self) -> pa.Table:
        return events_of(self._rows)

    def _again(self) -> None:
        pause = self.random.randint(self.every_ms // 2, self.every_ms * 3 // 2)
        self.simulation.event_queue.after(pause * MS, self._again)
        if self.random.random() >= self.holes:
            self._round()

    @property
    def _now(self) -> int:
        return self.simulation.event_queue.now

    def _round(self) -> None:
        seen = self._metadata()
        up = [b for b in self.simulation.brokers.values() if b.running and not b.frozen]
        if seen is None or not up:
            return
        describer = self.random.choice(up).id
        known = self.observer.partitions
        self._write(self.observer.learn(known if known == seen else seen, Instant(self._now, 1.0), describer))
        for broker in self.simulation.brokers:
            delay = self.random.randint(0, 40) * MS
            self.simulation.event_queue.after(delay, self._ask, broker, self.observer.replicas, seen)

    def _metadata(self) -> Partitions | None:
        """What the controllers have committed."""
        registered = self.simulation.controller.partitions
        if not registered:
            return None
        keys = sorted(registered)
        names = sorted({topic for topic, _ in keys})
        sizes = [sum(topic == name for topic, _ in keys) for name in names]
        ids = tuple(registered[name, 0].topic_id for name in names)
        rows = [registered[key] for key in keys]
        return Partitions(
            Topics(tuple(names), ids, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)),
            leader=np.array([row.leader for row in rows], np.int32),
            leader_epoch=np.array([row.leader_epoch for row in rows], np.int32),
            isr=Lists.of([sorted(row.isr) for row in rows]),
            replicas=Lists.of([list(row.replicas) for row in rows]),
            brokers=tuple(BrokerAddress(b, "host", 9092) for b in self.simulation.brokers),
        )

    def _ask(self, broker: int, replicas: Any, seen: Partitions) -> None:
        """First the HWs, some milliseconds later the LEOs."""
        if not self._answers(broker) or self.random.random() < self.holes:
            self.observer.missed(broker, self._now, "timed out")
            return
        hws = {key: r.hw for key, r in self.simulation.brokers[broker].replicas.items() if r.leader_partition}
        apart = self.random.randint(1, 30) * MS
        self.simulation.event_queue.after(apart, self._take, broker, (replicas, seen), hws, apart)

    def _answers(self, broker: int) -> bool:
        one = self.simulation.brokers[broker]
        return one.running and not one.frozen

    def _take(self, broker: int, asked: Any, hws: dict[tuple[str, int], int], apart: int) -> None:
        if not self._answers(broker):
            self.observer.missed(broker, self._now, "timed out")
            return
        replicas, seen = asked
        of_broker = replicas.of_broker(broker)
        slots = np.arange(of_broker.start, of_broker.stop)
        rows = [self._replica(broker, seen, int(replicas.partition[slot]), hws) for slot in slots]
        columns = np.array(rows, np.int64).reshape(len(rows), 7).T
        leo, error, log_epoch, leads, hw, hw_error, term_start = columns
        count = len(rows)
        answer = Answer(
            broker=broker, partitions=seen, replicas=replicas, slots=slots, leo=leo, error=error.astype(np.int32),
            log_epoch=log_epoch.astype(np.int32), leads=leads.astype(np.bool_), hw=hw,
            hw_error=hw_error.astype(np.int32),
            term_start=term_start, ts_us=np.full(count, self._now - apart // 2),
            ts_error_ms=np.full(count, apart / 2 / MS + 1), at=Instant(self._now, 1.0),
        )  # fmt: skip
        self._write({broker: self.observer.take(answer)})

    def _replica(self, broker: int, seen: Partitions, row: int, hws: dict[tuple[str, int], int]) -> tuple[int, ...]:
        """(LEO, error, log epoch, whether asked as the leader, HW, its error, where the term begins)"""
        topic, number = (int(column[row]) for column in seen.topics.rows())
        replica: Replica | None = self.simulation.brokers[broker].replicas.get((seen.topics.names[topic], number))
        asked, epoch = int(seen.leader[row] == broker), int(seen.leader_epoch[row])
        if replica is None or self.random.random() < self.holes / 5:
            return UNKNOWN, NOT_AVAILABLE, UNKNOWN, asked, UNKNOWN, NOT_AVAILABLE, UNKNOWN
        log, led = replica.log, replica.leader_partition
        last = -1 if log.last_epoch is None else log.last_epoch
        if not asked or led is None or led.epoch != epoch or replica.key not in hws:
            return log.leo, 0, last, asked, UNKNOWN, 6 if asked else 0, UNKNOWN
        ended = log.end_of(epoch - 1)
        return log.leo, 0, last, 1, hws[replica.key], 0, UNKNOWN if ended is None else ended[1]

    def _write(self, tables: dict[int, list[pa.Table]]) -> None:
        for of_broker in tables.values():
            for table in of_broker:
                for row in table.to_pylist():
                    place = (row["source_id"], row["topic"], row["partition"])
                    row |= {"source_epoch": 0, "source_seq": self._numbers[place[0]], "seq": self._numbers[place]}
                    self._numbers.update([place[0], place])
                    self._rows.append(row)
