"""What really happened in a simulated cluster: from its own state at every happening, not from what was told of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from generators.simulator.attempts import reports
from generators.simulator.causes import Causes
from generators.simulator.committed import Committed
from generators.simulator.happening import CONTROLLER, REPLICATION, Happening
from generators.simulator.log import Run
from generators.simulator.promises import promises
from generators.simulator.settings import MS, Settings
from generators.simulator.staleness import Staleness, Stretch
from schemas import truths

if TYPE_CHECKING:
    from generators.simulator.leading import Leading
    from generators.simulator.replica import Replica
    from generators.simulator.simulation import Simulation

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
    committed: Committed = field(default_factory=Committed)
    terms: dict[int, _Term] = field(default_factory=dict)
    """By broker, until somebody else is elected: a former leader may not know yet that it is one."""
    epochs: set[int] = field(default_factory=set)
    """Leader epochs that anybody has begun to lead in."""
    held: dict[int, list[Run]] = field(default_factory=dict)
    """By broker: its log's runs, a list that grows with the log and is left behind when that is cut."""


class Truth:
    """Observes a simulation, whose state it reads (`follow` first); `close` gives the tables of `schemas.TRUTH`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._partitions: dict[tuple[str, str, int], _Partition] = {}
        self._causes = Causes()
        self._rows: dict[str, list[Row]] = {name: [] for name in truths()}
        self._heard: dict[int, int] = {}
        """By broker: its clock (ms) when it last told anything."""
        self._simulation: Simulation | None = None

    def follow(self, simulation: Simulation) -> None:
        self._simulation = simulation

    def observe(self, happening: Happening) -> None:
        self._causes.observe(happening)
        self._heard[happening.broker] = happening.ts // MS
        if happening.topic is None or happening.partition < 0 or happening.topic_id is None:
            return
        key = (happening.topic, happening.topic_id, happening.partition)
        partition = self._partitions.setdefault(key, _Partition())
        if happening.source == CONTROLLER:
            self._recorded(partition, happening)
        elif happening.source == REPLICATION:
            self._seen(partition, happening)

    def close(self) -> dict[str, pa.Table]:
        """All that is true, by table; the simulation is over."""
        simulation = self._known
        for partition in self._partitions.values():
            for broker in list(partition.terms):
                self._end_term(partition, broker)
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
        for broker, term in list(partition.terms.items()):
            if h.kind == "election" and (h.leader_epoch or 0) > (term.first.leader_epoch or 0):
                self._end_term(partition, broker)

    # what brokers do

    def _seen(self, partition: _Partition, h: Happening) -> None:
        replica = self._known.brokers[h.broker].replicas.get((h.topic or "", h.partition))
        if replica is None:
            return
        if h.kind == "leader":
            self._begin_term(partition, h, replica)
        elif h.kind == "follower":
            self._end_term(partition, h.broker)
        elif h.kind == "truncate":
            self._cut(partition, h)
        if h.kind in ("leader", "follower", "truncate") or h.broker not in partition.held:
            partition.held[h.broker] = replica.log.runs
        term = partition.terms.get(h.broker)
        if term is not None:
            self._stretches(h, term, term.staleness.look(term.leading, h.ts // MS))
        if reports(h) and replica.leading is not None:
            self._tell_hw(h, replica.leading, "advance", h.hw)
            if term is not None:
                partition.committed.advance(replica.log, h.hw or 0)

    def _begin_term(self, partition: _Partition, h: Happening, replica: Replica) -> None:
        self._end_term(partition, h.broker)
        if replica.leading is None:
            return
        version = self._known.brokers[h.broker].version
        term = _Term(replica.leading, h, Staleness(self._settings, version))
        partition.terms[h.broker] = term
        again = h.leader_epoch in partition.epochs
        self._judge(partition, h, replica, bool(h.unclean) and not again)
        partition.epochs.add(h.leader_epoch or 0)
        self._tell_hw(h, replica.leading, "term_start", h.hw)

    def _judge(self, partition: _Partition, h: Happening, replica: Replica, unclean: bool) -> None:
        end = partition.committed.end
        loss = partition.committed.lead(replica.log)
        if loss is not None:
            what = "unclean_loss" if unclean else "committed_loss"
            self._tell_fall(h, what, end, h.hw, start_offset=h.leo, lost_from=loss.start, lost_to=loss.end)
        elif partition.epochs and (h.hw or 0) < end:
            self._tell_fall(h, "stale_leader_hw", end, h.hw, start_offset=h.leo)

    def _cut(self, partition: _Partition, h: Happening) -> None:
        to, held = h.leo or 0, partition.held.get(h.broker, [])
        removed = [r._replace(start=max(r.start, to)) for r in held if r.end > to]
        if partition.isr is not None and h.broker in partition.isr and to < partition.committed.end:
            self._tell_fall(h, "hw_moved_back", partition.committed.end, to, replica_id=h.broker)
        elif removed and not partition.committed.held(removed):
            self._tell_fall(h, "uncommitted_truncation", partition.committed.end, to, replica_id=h.broker)

    def _end_term(self, partition: _Partition, broker: int) -> None:
        """Elsewhere somebody is elected, or here a term begins: up to now, if this one could still tell the time."""
        term = partition.terms.pop(broker, None)
        if term is not None:
            node = self._known.brokers[broker]
            running = node.running and not node.frozen
            term.staleness.pass_time(node.clock.ms if running else self._heard[broker])
            self._stretches(term.first, term, term.staleness.open())

    # rows

    def _tell_hw(self, h: Happening, leading: Leading, kind: str, hw: int | None) -> None:
        self._tell(
            "truth_hw", h, ts=h.ts, leader_id=h.broker, leader_epoch=h.leader_epoch, term=leading.term, kind=kind,
            hw=hw, leader_leo=leading.log.leo, isr=leading.isr,
        )  # fmt: skip

    def _tell_fall(self, h: Happening, what: str, before: int, after: int | None, **more: int | None) -> None:
        said = {"ts": h.ts, "leader_id": h.leader, "leader_epoch": h.leader_epoch, "class": what}
        self._tell("truth_regressions", h, **said, hw_before=before, hw_after=after, **more)

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
        write_deltalake(str(Path(folder) / name), table, mode="overwrite", schema_mode="overwrite")


def _table(rows: list[Row], schema: pa.Schema) -> pa.Table:
    return pa.table([pa.array([row.get(f.name) for row in rows], f.type) for f in schema], schema=schema)
