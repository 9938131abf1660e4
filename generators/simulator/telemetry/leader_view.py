"""A leader's view of its replicas, derived from its own events: the LEOs in its log lines."""

from __future__ import annotations

from dataclasses import dataclass, field

from generators.simulator.cluster import rules
from generators.simulator.cluster.replica import Follower
from generators.simulator.cluster.settings import MS, Settings
from generators.simulator.cluster.simulation_event import REPLICATION, SimulationEvent
from generators.simulator.telemetry.attempts import Attempt, reports

Place = tuple[int, str | None, int]
"""Broker, topic, partition."""


@dataclass
class LeaderView:
    """One partition on the broker that leads it."""

    leo: int
    hw: int
    epoch: int | None
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    min_isr: int
    followers: dict[int, Follower] = field(default_factory=dict)

    def others(self, broker: int) -> list[int]:
        return [r for r in self.replicas if r != broker]


class LeaderViews:
    """Every led partition, as its leader sees it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._views: dict[Place, LeaderView] = {}
        self._restarted: set[int] = set()
        self._broker_epochs: dict[int, int] = {}
        """The newest printed by a controller: those that restart print old ones again."""

    def of(self, event: SimulationEvent) -> LeaderView | None:
        return self._views.get((event.broker, event.topic, event.partition))

    def learn(self, attempt: Attempt) -> bool:
        """Update by an event; returns whether the leader tried to raise its HW by it."""
        event = attempt.by
        if event.kind == "config" and event.source == REPLICATION and event.min_isr is not None:
            self._configure(event.broker, event.topic, event.min_isr)
        elif event.kind == "broker_state" and event.detail == "started" and event.replica is not None:
            self._register(event.replica, event.broker_epoch or 0)
        elif event.kind == "follower":
            self._views.pop((event.broker, event.topic, event.partition), None)
        elif event.kind == "leader":
            self._start(event)
        view = self.of(event)
        if view is not None and reports(event) and event.hw is not None:
            view.hw = event.hw
        if not attempt.of_leader or view is None:
            return False
        tried = event.kind != "fetch" or self._fetched(view, event)
        if event.kind == "isr":
            _commit(view, event)
        view.leo = max(view.leo, event.leader_leo or 0)
        if attempt.hw is not None and attempt.hw.hw is not None:
            view.hw = attempt.hw.hw
        return tried

    def under_min_isr(self, event: SimulationEvent, view: LeaderView) -> bool:
        """Whether the HW may not move at all (Partition.isUnderMinIsr)."""
        strict = self._settings.versions.get(event.broker, self._settings.version).strict_min_isr
        return not rules.may_advance(len(view.isr), view.min_isr, len(view.replicas), strict)

    def _start(self, event: SimulationEvent) -> None:
        place = (event.broker, event.topic, event.partition)
        before = self._views.get(place)
        led = (
            before is not None
            and event.broker not in self._restarted
            and (event.leader_epoch or 0) > (before.epoch or 0)
        )
        self._restarted.discard(event.broker)
        isr, replicas = event.isr or (), event.replicas or event.isr or ()
        view = LeaderView(event.leo or 0, event.hw or 0, event.leader_epoch, isr, replicas, event.min_isr or 1)
        for id in view.others(event.broker):
            known = before.followers.get(id) if led and before is not None else None
            since = event.ts // MS if id in isr else 0
            if known is None:
                view.followers[id] = Follower(id, caught_up=since)
            else:
                view.followers[id] = Follower(id, known.leo, view.leo, since, since)
        self._views[place] = view

    def _fetched(self, view: LeaderView, event: SimulationEvent) -> bool:
        if event.replica is None or event.leo is None:
            raise ValueError(f"a fetch must name its replica and offset: {event}")
        follower = view.followers.setdefault(event.replica, Follower(event.replica))
        end = event.leader_leo if event.leader_leo is not None else view.leo
        return follower.fetches(event.leo, end, event.ts // MS, event.broker_epoch)

    def _register(self, broker: int, epoch: int) -> None:
        if epoch > self._broker_epochs.get(broker, -1):
            self._broker_epochs[broker] = epoch
            self._restarted.add(broker)

    def _configure(self, broker: int, topic: str | None, least: int) -> None:
        for (id, name, _), view in self._views.items():
            if id == broker and topic in (None, name):
                view.min_isr = least


def _commit(view: LeaderView, event: SimulationEvent) -> None:
    if event.isr is not None:
        view.isr = event.isr
    if event.replicas is not None:
        view.replicas = event.replicas
        others = view.others(event.broker)
        view.followers = {id: view.followers.get(id) or Follower(id) for id in others}
