"""What really happened in a fleet: all of it while partitions are among single steps, else their HWs now and then."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from generators.simulator.clients.load import Load
from generators.simulator.clients.promises import last_leader
from generators.simulator.cluster.happening import CONTROLLER, REPLICATION, Happening
from generators.simulator.cluster.log import ReplicaLog
from generators.simulator.cluster.registration import Registration
from generators.simulator.cluster.settings import MS, Settings
from generators.simulator.cluster.simulation import Simulation
from generators.simulator.fleet.arrangement import HW, LEO, Arrangement
from generators.simulator.fleet.columns import Names
from generators.simulator.fleet.compiled import I64
from generators.simulator.fleet.opening import load_of
from generators.simulator.fleet.promised import Promises
from generators.simulator.fleet.roster import Roster
from generators.simulator.fleet.telling import Course, clock
from generators.simulator.truth.tables import Truth
from schemas import truth_hw, truth_records

UNKNOWN_TERM = 0
"""Terms are counted where somebody looks at single steps."""


class FleetTruth:
    """Observes the single steps of a fleet, of the partitions among them (`came`, `left`); `look`s at the others.

    The tables are those of `schemas.TRUTH`: `truth_hw` has every change of a guest, and of the others the HW where it
    has changed since the last look. Topics that are yet to be created are observed from their beginning.
    """

    def __init__(self, settings: Settings, roster: Roster, loads: Sequence[Load]) -> None:
        there = set(roster.there.tolist())
        self.arranged: Arrangement | None = None
        """The partitions in rounds, as they were arranged last."""
        self._roster = roster
        self._guests = {roster.place(n) for n in range(len(roster.topic)) if n not in there}
        self._promises = Promises.of(loads, load_of(roster, loads))
        self._steps = Truth(settings)
        self._came: set[tuple[str, int, int]] = set()
        self._seen: I64 = np.full(len(roster.topic), -1, dtype=np.int64)
        self._looks: list[pa.Table] = []

    def follow(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._steps.follow(simulation)

    def observe(self, happening: Happening) -> None:
        if happening.topic is None or (happening.topic, happening.partition) in self._guests:
            self._steps.observe(happening)

    def recorded(self, happening: Happening) -> None:
        if happening.topic is None or (happening.topic, happening.partition) in self._guests:
            self._steps.recorded(happening)

    def heard(self, fetch: Happening) -> None:
        """That broker was alive then, though it has nothing new to tell."""
        self._steps.heard(fetch.broker, fetch.ts)

    def came(self, simulation: Simulation, known: Registration, number: int) -> None:
        """A partition has come among single steps: for the truth, its leader begins there with what it has."""
        now = simulation.agenda.now
        leader = simulation.brokers[known.leader]
        replica = leader.replicas[known.key]
        place: dict[str, Any] = {
            "topic": known.topic, "topic_id": known.topic_id, "partition": known.partition, "leader": known.leader,
            "leader_epoch": known.leader_epoch, "partition_epoch": known.partition_epoch, "isr": known.isr,
            "replicas": known.replicas,
        }  # fmt: skip
        mine = (now, leader.clock.us, known.leader, REPLICATION)
        id = simulation.settings.controller_id
        self._guests.add(known.key)
        self._came.add((*known.key, now))
        self._steps.recorded(Happening(now, simulation.quorum.clock.us, id, CONTROLLER, "election", **place))
        self._steps.observe(Happening(*mine, "leader", **place, leo=replica.log.leo, hw=replica.hw, unclean=False))
        self._steps.observe(Happening(*mine, "hw", **place, replica=known.leader, hw=replica.hw))
        run = replica.log.runs[0] if replica.log.runs else None
        simulation.acknowledged[known.key] = self._promises.came(number, replica.hw, replica.log.leo, run)

    def deleted(self, number: int) -> None:
        """Its topic is gone; one of that name that comes later is another one, and observed from its beginning."""
        self._promises.forget(number)
        self._simulation.acknowledged.pop(self._roster.place(number), None)

    def left(self, simulation: Simulation, known: Registration, number: int) -> None:
        """It is about to go back to rounds."""
        replica = simulation.brokers[known.leader].replicas[known.key]
        self._promises.left(number, replica.hw, replica.log, simulation.acknowledged.pop(known.key, []))
        self._guests.discard(known.key)
        self._steps.forget(known.topic, known.topic_id, known.partition)

    def look(self, arrangement: Arrangement, names: Names, course: Course, now: int) -> None:
        """HWs of the partitions in rounds, where they have changed; `now`: microseconds since the start."""
        number, live = arrangement.partitions.number, arrangement.live.partition
        at = np.flatnonzero(self._seen[number] != live[:, HW])
        self._seen[number] = live[:, HW]
        shown = np.array([clock(course, k, now) for k in range(len(names.brokers))], dtype=np.int64)
        of = np.searchsorted(arrangement.layout.partitions_of, at, side="right") - 1
        replicas = arrangement.partitions.replicas[at]
        there = replicas >= 0
        ends = np.concatenate([[0], np.cumsum(there.sum(axis=1))]).astype(np.int32)
        made = {
            "cluster": pa.repeat(pa.scalar(names.cluster), len(at)),
            "topic": pa.array(names.topics).take(pa.array(names.topic[at])),
            "topic_id": pa.array(names.topic_ids).take(pa.array(names.topic[at])),
            "partition": names.partition[at],
            "at": np.full(len(at), course.start + now),
            "ts": shown[of] * MS,
            "leader_id": names.leader[at],
            "leader_epoch": names.leader_epoch[at],
            "term": np.full(len(at), UNKNOWN_TERM),
            "kind": pa.repeat(pa.scalar("advance"), len(at)),
            "hw": live[at, HW],
            "leader_leo": live[at, LEO],
            "isr": pa.ListArray.from_arrays(pa.array(ends), pa.array(replicas[there])),
        }
        self._looks.append(
            pa.table([pa.array(made[f.name]).cast(f.type) for f in truth_hw.ARROW], schema=truth_hw.ARROW)
        )

    def close(self) -> Mapping[str, pa.Table]:
        """All that is true, by table; the simulation is over."""
        tables = self._steps.close()
        steps = tables["truth_hw"]
        came = [
            kind == "term_start" and (topic, partition, at) in self._came
            for kind, topic, partition, at in zip(
                steps["kind"].to_pylist(), steps["topic"].to_pylist(), steps["partition"].to_pylist(),
                steps["at"].cast(pa.int64()).to_pylist(), strict=True,
            )
        ]  # fmt: skip
        steps = steps.filter(pc.invert(pa.array(came, pa.bool_())))
        made = {"truth_hw": pa.concat_tables([*self._looks, steps]), "truth_records": self._records()}
        return tables | made

    def _records(self) -> pa.Table:
        """What producers were promised: of partitions in rounds by their arrays, of the others by their logs."""
        assert self.arranged is not None
        roster, state = self._roster, self.arranged.state()
        rounds = zip(
            state.number.tolist(), state.replicas[:, 0].tolist(), state.hw.tolist(), state.leo.tolist(),
            self._promises.so_far(state.number, state.hw, state.leo).tolist(), strict=True,
        )  # fmt: skip
        rows = [
            (number, leader, hw, leo, acknowledged, self._promises.gone.get(number, []))
            for number, leader, hw, leo, acknowledged in rounds
        ]
        all_of_them = sorted([*rows, *self._of_guests()])
        numbers, leaders, hws, leos, acknowledged, gone = zip(*all_of_them, strict=True) if all_of_them else [()] * 6
        places = [roster.place(n) for n in numbers]
        made = {
            "cluster": pa.repeat(pa.scalar(self._steps.cluster), len(numbers)),
            "topic": [topic for topic, _ in places],
            "topic_id": [roster.topic_ids[t] for t in roster.topic[list(numbers)].tolist()],
            "partition": [partition for _, partition in places],
            "at": np.full(len(numbers), self._simulation.agenda.now),
            "leader_id": leaders, "hw": hws, "leo": leos, "acknowledged": acknowledged,
            "lost": [sum(b - a for a, b in ranges) for ranges in gone],
            "lost_from": [[a for a, _ in ranges] for ranges in gone],
            "lost_to": [[b for _, b in ranges] for ranges in gone],
        }  # fmt: skip
        schema = truth_records.ARROW
        return pa.table([pa.array(made[f.name]).cast(f.type) for f in schema], schema=schema)

    def _of_guests(self) -> Iterator[tuple[int, int, int, int, int, list[tuple[int, int]]]]:
        simulation = self._simulation
        for known in simulation.controller.partitions.values():
            number = self._roster.number(*known.key)
            last = last_leader(simulation, known)
            leo, hw = (last.log.leo, last.hw) if last is not None else (0, 0)
            log = last.log if last is not None else ReplicaLog()
            answers = simulation.acknowledged.get(known.key, [])
            yield number, known.leader, hw, leo, *self._promises.settled(number, log, answers)
