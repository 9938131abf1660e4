"""What really happened in a fleet: all of it while partitions are in single steps, else samples of their HWs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from generators.simulator.clients.acknowledged_records import last_leader
from generators.simulator.clients.load import Load
from generators.simulator.cluster.log import ReplicaLog
from generators.simulator.cluster.registration import Registration
from generators.simulator.cluster.settings import MS, Settings
from generators.simulator.cluster.simulation import Simulation
from generators.simulator.cluster.simulation_event import CONTROLLER, REPLICATION, SimulationEvent
from generators.simulator.fleet.acknowledgements import Acknowledgements
from generators.simulator.fleet.arrangement import HW, LEO, Arrangement
from generators.simulator.fleet.bootstrap import load_of
from generators.simulator.fleet.columns import Names
from generators.simulator.fleet.compiled import I64
from generators.simulator.fleet.event_rows import RunParameters, clock
from generators.simulator.fleet.partition_catalog import PartitionCatalog
from generators.simulator.truth.tables import Truth
from schemas import truth_hw, truth_records

UNKNOWN_TERM = 0
"""Terms are counted in single steps only."""


class FleetTruth:
    """Observes the partitions of a fleet in single steps (`entered_steps`, `left_steps`); `sample`s the others.

    The tables are those of `schemas.TRUTH`: `truth_hw` has every change of a partition in single steps, and of the
    others the HW where it has changed since the last sample. Topics that will be created are observed from their
    beginning.
    """

    def __init__(self, settings: Settings, catalog: PartitionCatalog, loads: Sequence[Load]) -> None:
        there = set(catalog.existing.tolist())
        self.arranged: Arrangement | None = None
        """The last arrangement of the partitions in rounds."""
        self._catalog = catalog
        self._stepped = {catalog.topic_partition(n) for n in range(len(catalog.topic)) if n not in there}
        self._acknowledgements = Acknowledgements.of(loads, load_of(catalog, loads))
        self._steps = Truth(settings)
        self._entered: set[tuple[str, int, int]] = set()
        self._seen: I64 = np.full(len(catalog.topic), -1, dtype=np.int64)
        self._samples: list[pa.Table] = []

    def follow(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._steps.follow(simulation)

    def observe(self, event: SimulationEvent) -> None:
        if event.topic is None or (event.topic, event.partition) in self._stepped:
            self._steps.observe(event)

    def recorded(self, event: SimulationEvent) -> None:
        if event.topic is None or (event.topic, event.partition) in self._stepped:
            self._steps.recorded(event)

    def seen_alive(self, broker: int, ts: int) -> None:
        """A broker was alive at `ts` (us) of its clock, though it emits nothing new."""
        self._steps.seen_alive(broker, ts)

    def entered_steps(self, simulation: Simulation, known: Registration, number: int) -> None:
        """A partition has entered single steps: for the truth, its leader begins there with its current state."""
        now = simulation.event_queue.now
        leader = simulation.brokers[known.leader]
        replica = leader.replicas[known.key]
        fields: dict[str, Any] = {
            "topic": known.topic, "topic_id": known.topic_id, "partition": known.partition, "leader": known.leader,
            "leader_epoch": known.leader_epoch, "partition_epoch": known.partition_epoch, "isr": known.isr,
            "replicas": known.replicas,
        }  # fmt: skip
        mine = (now, leader.clock.us, known.leader, REPLICATION)
        id = simulation.settings.controller_id
        self._stepped.add(known.key)
        self._entered.add((*known.key, now))
        self._steps.recorded(SimulationEvent(now, simulation.quorum.clock.us, id, CONTROLLER, "election", **fields))
        self._steps.observe(
            SimulationEvent(*mine, "leader", **fields, leo=replica.log.leo, hw=replica.hw, unclean=False)
        )
        self._steps.observe(SimulationEvent(*mine, "hw", **fields, replica=known.leader, hw=replica.hw))
        run = replica.log.runs[0] if replica.log.runs else None
        simulation.acknowledged[known.key] = self._acknowledgements.entered_steps(
            number, replica.hw, replica.log.leo, run
        )

    def deleted(self, number: int) -> None:
        """Its topic is deleted; a later one of that name is another topic, observed from its beginning."""
        self._acknowledgements.forget(number)
        self._simulation.acknowledged.pop(self._catalog.topic_partition(number), None)

    def left_steps(self, simulation: Simulation, known: Registration, number: int) -> None:
        """It is about to return to rounds."""
        replica = simulation.brokers[known.leader].replicas[known.key]
        self._acknowledgements.left_steps(number, replica.hw, replica.log, simulation.acknowledged.pop(known.key, []))
        self._stepped.discard(known.key)
        self._steps.stop_tracking(known.topic, known.topic_id, known.partition)

    def sample(self, arrangement: Arrangement, names: Names, parameters: RunParameters, now: int) -> None:
        """Sample the HWs of the partitions in rounds that have changed; `now`: microseconds since the start."""
        number, live = arrangement.partitions.number, arrangement.live.partition
        at = np.flatnonzero(self._seen[number] != live[:, HW])
        self._seen[number] = live[:, HW]
        shown = np.array([clock(parameters, k, now) for k in range(len(names.brokers))], dtype=np.int64)
        of = np.searchsorted(arrangement.layout.partitions_of, at, side="right") - 1
        replicas = arrangement.partitions.replicas[at]
        there = replicas >= 0
        ends = np.concatenate([[0], np.cumsum(there.sum(axis=1))]).astype(np.int32)
        made = {
            "cluster": pa.repeat(pa.scalar(names.cluster), len(at)),
            "topic": pa.array(names.topics).take(pa.array(names.topic[at])),
            "topic_id": pa.array(names.topic_ids).take(pa.array(names.topic[at])),
            "partition": names.partition[at],
            "at": np.full(len(at), parameters.start + now),
            "ts": shown[of] * MS,
            "leader_id": names.leader[at],
            "leader_epoch": names.leader_epoch[at],
            "term": np.full(len(at), UNKNOWN_TERM),
            "kind": pa.repeat(pa.scalar("advance"), len(at)),
            "hw": live[at, HW],
            "leader_leo": live[at, LEO],
            "isr": pa.ListArray.from_arrays(pa.array(ends), pa.array(replicas[there])),
        }
        self._samples.append(
            pa.table([pa.array(made[f.name]).cast(f.type) for f in truth_hw.ARROW], schema=truth_hw.ARROW)
        )

    def close(self) -> Mapping[str, pa.Table]:
        """The tables of truth; the simulation is over."""
        tables = self._steps.close()
        steps = tables["truth_hw"]
        came = [
            kind == "term_start" and (topic, partition, at) in self._entered
            for kind, topic, partition, at in zip(
                steps["kind"].to_pylist(), steps["topic"].to_pylist(), steps["partition"].to_pylist(),
                steps["at"].cast(pa.int64()).to_pylist(), strict=True,
            )
        ]  # fmt: skip
        steps = steps.filter(pc.invert(pa.array(came, pa.bool_())))
        made = {"truth_hw": pa.concat_tables([*self._samples, steps]), "truth_records": self._records()}
        return tables | made

    def _records(self) -> pa.Table:
        """The table truth_records: of partitions in rounds from their arrays, of the others from their logs."""
        assert self.arranged is not None
        catalog, state = self._catalog, self.arranged.state()
        rounds = zip(
            state.number.tolist(), state.replicas[:, 0].tolist(), state.hw.tolist(), state.leo.tolist(),
            self._acknowledgements.so_far(state.number, state.hw, state.leo).tolist(), strict=True,
        )  # fmt: skip
        rows = [
            (number, leader, hw, leo, acknowledged, self._acknowledgements.gone.get(number, []))
            for number, leader, hw, leo, acknowledged in rounds
        ]
        all_of_them = sorted([*rows, *self._of_stepped()])
        numbers, leaders, hws, leos, acknowledged, gone = zip(*all_of_them, strict=True) if all_of_them else [()] * 6
        places = [catalog.topic_partition(n) for n in numbers]
        made = {
            "cluster": pa.repeat(pa.scalar(self._steps.cluster), len(numbers)),
            "topic": [topic for topic, _ in places],
            "topic_id": [catalog.topic_ids[t] for t in catalog.topic[list(numbers)].tolist()],
            "partition": [partition for _, partition in places],
            "at": np.full(len(numbers), self._simulation.event_queue.now),
            "leader_id": leaders, "hw": hws, "leo": leos, "acknowledged": acknowledged,
            "lost": [sum(b - a for a, b in ranges) for ranges in gone],
            "lost_from": [[a for a, _ in ranges] for ranges in gone],
            "lost_to": [[b for _, b in ranges] for ranges in gone],
        }  # fmt: skip
        schema = truth_records.ARROW
        return pa.table([pa.array(made[f.name]).cast(f.type) for f in schema], schema=schema)

    def _of_stepped(self) -> Iterator[tuple[int, int, int, int, int, list[tuple[int, int]]]]:
        simulation = self._simulation
        for known in simulation.controller.partitions.values():
            number = self._catalog.number(*known.key)
            last = last_leader(simulation, known)
            leo, hw = (last.log.leo, last.hw) if last is not None else (0, 0)
            log = last.log if last is not None else ReplicaLog()
            answers = simulation.acknowledged.get(known.key, [])
            yield number, known.leader, hw, leo, *self._acknowledgements.settled(number, log, answers)
