"""What really happened in a simulated cluster: from its own state at every happening, not from what was told of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from generators.simulator.clients.promises import promises
from generators.simulator.cluster.happening import REPLICATION, Happening
from generators.simulator.cluster.log import ReplicaLog
from generators.simulator.cluster.settings import MS, Settings
from generators.simulator.telemetry.attempts import reports
from generators.simulator.telemetry.beats import Clocks, beat, ends_second
from generators.simulator.truth.causes import Causes
from generators.simulator.truth.falls import Fall, Falls
from generators.simulator.truth.staleness import Staleness, Stretch
from schemas import truths

if TYPE_CHECKING:
    from generators.simulator.cluster.leading import Leading
    from generators.simulator.cluster.replica import Replica
    from generators.simulator.cluster.simulation import Simulation

Row = dict[str, Any]


@dataclass
class _Term:
    """One stretch of leading."""

    leading: Leading
    first: Happening
    staleness: Staleness


@dataclass
class _Partition:
    """One partition of one topic id."""

    isr: tuple[int, ...] | None = None
    replicas: tuple[int, ...] = ()
    falls: Falls = field(default_factory=Falls)
    terms: dict[int, _Term] = field(default_factory=dict)
    """By broker, until it learns that it leads no more, or leads anew."""
    logs: dict[int, ReplicaLog] = field(default_factory=dict)
    """By broker: its log with a list of runs that grows, and that is left behind when the log is cut."""
    before: _Partition | None = None
    """The same partition of a topic of this name that was deleted."""


class Truth:
    """Observes a simulation, whose state it reads (`follow` first); `close` gives the tables of `schemas.TRUTH`.

    Of the controllers it takes what is committed, when it is; what they print tells it no more than that they live.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._partitions: dict[tuple[str, str, int], _Partition] = {}
        self._latest: dict[tuple[str, int], _Partition] = {}
        """By topic and partition, that of the newest topic id."""
        self._causes = Causes()
        self._rows: dict[str, list[Row]] = {name: [] for name in truths()}
        self._heard: dict[int, int] = {}
        """By broker: its clock (us) when it last told anything."""
        self._simulation: Simulation | None = None

    def follow(self, simulation: Simulation) -> None:
        self._simulation = simulation
        beat(simulation, self._beat)

    def _beat(self, now: Clocks) -> None:
        for (broker, _), ts in now.items():
            if ends_second(self._heard.get(broker, 0), ts):
                self._heard[broker] = ts

    def observe(self, happening: Happening) -> None:
        self.heard(happening.broker, happening.ts)
        if happening.source == REPLICATION:
            self._causes.observe(happening)
            partition = self._partition(happening)
            if partition is not None:
                self._seen(partition, happening)

    def recorded(self, happening: Happening) -> None:
        """The quorum has committed this."""
        self._causes.observe(happening)
        partition = self._partition(happening)
        if partition is not None:
            self._recorded(partition, happening)

    def _partition(self, h: Happening) -> _Partition | None:
        if h.topic is None or h.partition < 0 or h.topic_id is None:
            return None
        key = (h.topic, h.topic_id, h.partition)
        if key not in self._partitions:
            place = h.topic, h.partition
            self._partitions[key] = self._latest[place] = _Partition(before=self._latest.get(place))
        return self._partitions[key]

    def heard(self, broker: int, ts: int) -> None:
        """That broker told something at `ts` (us) of its clock."""
        self._heard[broker] = ts

    @property
    def cluster(self) -> str:
        return self._settings.cluster

    def forget(self, topic: str, topic_id: str, partition: int) -> None:
        """From now on nobody looks at a partition; what was true of it until now stays."""
        known = self._partitions.pop((topic, topic_id, partition), None)
        if known is None:
            return
        if self._latest.get((topic, partition)) is known:
            del self._latest[topic, partition]
        for broker in list(known.terms):
            self._end_term(known, broker, self._known.brokers[broker].clock.ms)
        for fall in known.falls.found():
            self._tell_fall(fall)

    def close(self) -> dict[str, pa.Table]:
        """All that is true, by table; the simulation is over."""
        simulation = self._known
        for partition in self._partitions.values():
            for broker in list(partition.terms):
                self._end_term(partition, broker)
            for fall in partition.falls.found():
                self._tell_fall(fall)
        for topic, topic_id, number in self._partitions:
            promised = promises(simulation, topic, topic_id, number)
            if promised is not None:
                place = self._place(topic, topic_id, number, simulation.agenda.now)
                self._rows["truth_records"].append(place | promised)
        return {name: _table(self._rows[name], table.arrow()) for name, table in truths().items()}

    @property
    def _known(self) -> Simulation:
        if self._simulation is None:
            raise RuntimeError("truth knows no simulation: call follow(simulation) before it starts")
        return self._simulation

    # the controller's record

    def _recorded(self, partition: _Partition, h: Happening) -> None:
        before, after = partition.isr, h.isr
        if after is not None and before is not None and set(after) != set(before):
            cause = self._causes.of(h, before, partition.replicas)
            self._tell(
                "truth_isr", h, leader_id=h.leader, leader_epoch=h.leader_epoch, partition_epoch=h.partition_epoch,
                isr_before=before, isr_after=after, cause=cause,
            )  # fmt: skip
        partition.isr = after if after is not None else before
        partition.replicas = h.replicas or partition.replicas

    # what brokers do

    def _seen(self, partition: _Partition, h: Happening) -> None:
        replica = self._known.brokers[h.broker].replicas.get((h.topic or "", h.partition))
        if replica is None:
            return
        if h.kind == "leader":
            self._begin_term(partition, h, replica)
        elif h.kind in ("follower", "offline"):
            self._end_terms(partition, h)
        elif h.kind == "truncate":
            in_sync = partition.isr is not None and h.broker in partition.isr
            partition.falls.cut(h, replica.log, partition.logs.get(h.broker, replica.log), in_sync)
        if h.kind in ("leader", "follower", "truncate") or h.broker not in partition.logs:
            partition.logs[h.broker] = _alias(replica.log)
        term = partition.terms.get(h.broker)
        if term is not None:
            self._stretches(h, term, term.staleness.look(term.leading, h.ts // MS))
        if reports(h) and replica.leading is not None:
            self._tell_hw(h, replica.leading, "advance", h.hw)
            partition.falls.advance(h, replica.log)

    def _begin_term(self, partition: _Partition, h: Happening, replica: Replica) -> None:
        self._end_terms(partition, h)
        if replica.leading is not None:
            version = self._known.brokers[h.broker].version
            partition.terms[h.broker] = _Term(replica.leading, h, Staleness(self._settings, version))
            partition.falls.begin(h, replica.log)
            self._tell_hw(h, replica.leading, "term_start", h.hw)

    def _end_terms(self, partition: _Partition, h: Happening) -> None:
        """`h`: its broker leads no more as it did, be it that a topic of this name was made anew."""
        ended: _Partition | None = partition
        while ended is not None:
            self._end_term(ended, h.broker, h.ts // MS + 1)
            ended = ended.before

    def _end_term(self, partition: _Partition, broker: int, until: int | None = None) -> None:
        """Before `until` (ms) of its leader's clock; as far as that broker was heard of where nothing says."""
        term = partition.terms.pop(broker, None)
        if term is None:
            return
        node = self._known.brokers[broker]
        if until is None:
            until = node.clock.ms if node.running and not node.frozen else self._heard[broker] // MS
        if self._exists(term.first):
            term.staleness.pass_time(until)
        begun = term.first.ts // MS
        self._stretches(term.first, term, [s for s in term.staleness.open() if s.start < until or s.start == begun])

    def _exists(self, h: Happening) -> bool:
        """Whether its topic is not deleted, nor made anew."""
        known = self._known.controller.partitions.get((h.topic or "", h.partition))
        return known is not None and known.topic_id == h.topic_id

    # rows

    def _tell_hw(self, h: Happening, leading: Leading, kind: str, hw: int | None) -> None:
        self._tell(
            "truth_hw", h, ts=h.ts, leader_id=h.broker, leader_epoch=h.leader_epoch, term=leading.term, kind=kind,
            hw=hw, leader_leo=leading.log.leo, isr=leading.isr,
        )  # fmt: skip

    def _tell_fall(self, fall: Fall) -> None:
        h, loss = fall.by, fall.loss
        self._tell(
            "truth_regressions", h, **{"class": fall.cls}, ts=h.ts, leader_id=h.leader, leader_epoch=h.leader_epoch,
            replica_id=fall.replica, hw_before=fall.before, hw_after=fall.after,
            start_offset=h.leo if h.kind == "leader" else None,
            lost_from=loss.start if loss else None, lost_to=loss.end if loss else None,
        )  # fmt: skip

    def _stretches(self, h: Happening, term: _Term, stretches: list[Stretch]) -> None:
        for replica, start, end in stretches:
            self._tell(
                "truth_out_of_sync", h, leader_id=term.first.broker, leader_epoch=term.first.leader_epoch,
                term=term.leading.term, replica_id=replica, from_ts=start * MS,
                to_ts=None if end is None else end * MS,
            )  # fmt: skip

    def _tell(self, table: str, h: Happening, **more: Any) -> None:
        self._rows[table].append(self._place(h.topic, h.topic_id, h.partition, h.at) | more)

    def _place(self, topic: str | None, topic_id: str | None, partition: int, at: int) -> Row:
        cluster = self._settings.cluster
        return {"cluster": cluster, "topic": topic, "topic_id": topic_id, "partition": partition, "at": at}


def write(folder: str | Path, tables: Mapping[str, pa.Table]) -> None:
    """Each table as a Delta table of its name below `folder`, in place of what was there."""
    from deltalake import write_deltalake

    for name, table in tables.items():
        whole = table.combine_chunks()  # chunks would be written in any order
        write_deltalake(str(Path(folder) / name), whole, mode="overwrite", schema_mode="overwrite")


def _alias(log: ReplicaLog) -> ReplicaLog:
    """The log as it will be until it is cut: it shares the list of runs."""
    shared = ReplicaLog(log.start)
    shared.runs = log.runs
    return shared


def _table(rows: list[Row], schema: pa.Schema) -> pa.Table:
    return pa.table([pa.array([row.get(f.name) for row in rows], f.type) for f in schema], schema=schema)
