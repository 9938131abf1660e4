"""What a script did, step by step, with LEO and HW of every replica after each step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from generators.simulator.cluster.log import ReplicaLog
from generators.simulator.cluster.registration import NOBODY, Registration
from generators.simulator.cluster.replica import Replica
from generators.simulator.cluster.settings import Settings
from generators.simulator.cluster.simulation import Simulation
from generators.simulator.cluster.simulation_event import SimulationEvent

Watch = Callable[[Simulation], None]
"""Called with each cluster before it starts, to add observers."""


class Position(NamedTuple):
    """The position of one replica; `state` is leads, follows, waits (no leader), frozen or down."""

    leo: int
    hw: int
    log_start: int
    state: str
    records: tuple[str, ...]
    """Each record from `log_start` on: its value where it has one, else the leader epoch it was written in."""


class View(NamedTuple):
    """One partition: leader (None: nobody leads), epochs and ISR as the controller has them, replicas as they are."""

    leader: int | None
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: dict[int, Position]


class Step(NamedTuple):
    """A step of a script: the action, the events that followed, annotations, and the partitions afterwards."""

    text: str
    partitions: dict[tuple[str, int], View]
    happened: list[SimulationEvent]
    annotations: list[str]


@dataclass
class Act:
    """One cluster of a script."""

    title: str
    simulation: Simulation
    steps: list[Step] = field(default_factory=list)


class Narrative:
    """Passed to a script: makes its clusters, and records its steps."""

    def __init__(self, name: str, watch: Watch = lambda simulation: None) -> None:
        self.name = name
        self.acts: list[Act] = []
        self._watch = watch
        self._happened: list[SimulationEvent] = []
        self._annotations: list[str] = []

    def cluster(self, settings: Settings, title: str = "") -> Simulation:
        """A started cluster, which following steps are about. The events of its start are dropped."""
        name = f"{self.name}-{len(self.acts) + 1}" if self.acts else self.name
        settings = replace(settings, cluster=name)
        simulation = Simulation(settings, [self])
        self._watch(simulation)
        self.acts.append(Act(title, simulation))
        simulation.start()
        if not settings.automatic:
            simulation.settle()
        self._happened.clear()
        return simulation

    def observe(self, event: SimulationEvent) -> None:
        self._happened.append(event)

    def after(self, text: str) -> Step:
        """Record a step and its consequences. A second passes before the next one."""
        act = self.acts[-1]
        if not act.simulation.settings.automatic:
            act.simulation.settle()
        step = Step(text, partitions(act.simulation), self._happened[:], self._annotations[:])
        act.steps.append(step)
        self._happened.clear()
        self._annotations.clear()
        act.simulation.run(1)
        return step

    def annotate(self, *lines: str) -> None:
        """Add lines below the current step."""
        self._annotations.extend(lines)

    def table(self, head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """The same, in aligned columns; numbers to the right."""
        cells = [list(head), *([str(cell) for cell in row] for row in rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        for row in cells:
            padded = (c.rjust(w) if c[:1].isdecimal() else c.ljust(w) for c, w in zip(row, widths, strict=True))
            self.annotate("  ".join(padded).rstrip())


_NO_REPLICA = Replica("", 0, "")


def partitions(simulation: Simulation) -> dict[tuple[str, int], View]:
    """Every partition as it stands."""
    return {key: _view(simulation, registration) for key, registration in simulation.controller.partitions.items()}


def _view(simulation: Simulation, known: Registration) -> View:
    leader = None if known.leader == NOBODY else known.leader
    replicas = {b: _position(simulation, known, b) for b in known.replicas}
    return View(leader, known.leader_epoch, known.isr, replicas)


def _position(simulation: Simulation, known: Registration, broker: int) -> Position:
    host = simulation.brokers[broker]
    replica = host.replicas.get(known.key, _NO_REPLICA)
    state = "leads" if replica.leader_partition else "waits" if replica.leader in (None, NOBODY) else "follows"
    state = "down" if not host.running else "frozen" if host.frozen else state
    return Position(replica.log.leo, replica.hw, replica.log.start, state, _records(replica.log))


def _records(log: ReplicaLog) -> tuple[str, ...]:
    found: list[str] = []
    for run in log.runs:
        values = run.batch.values if run.batch else ()
        found += values if len(values) == run.end - run.start else [str(run.epoch)] * (run.end - run.start)
    return tuple(found)
