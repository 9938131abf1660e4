"""What a leader knows of its replicas, read off its own happenings: the LEOs that its log lines print."""

from __future__ import annotations

from dataclasses import dataclass, field

from generators.simulator.cluster import rules
from generators.simulator.cluster.happening import REPLICATION, Happening
from generators.simulator.cluster.replica import Follower
from generators.simulator.cluster.settings import MS, Settings
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
    """Every partition that is led, as its leader sees it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._views: dict[Place, LeaderView] = {}
        self._restarted: set[int] = set()
        self._broker_epochs: dict[int, int] = {}
        """The newest that a controller has printed: those that start again print the old ones once more."""

    def of(self, h: Happening) -> LeaderView | None:
        return self._views.get((h.broker, h.topic, h.partition))

    def learn(self, attempt: Attempt) -> bool:
        """Takes a happening in; whether the leader tried to raise its HW by it."""
        h = attempt.by
        if h.kind == "config" and h.source == REPLICATION and h.min_isr is not None:
            self._configure(h.broker, h.topic, h.min_isr)
        elif h.kind == "broker_state" and h.detail == "started" and h.replica is not None:
            self._register(h.replica, h.broker_epoch or 0)
        elif h.kind == "follower":
            self._views.pop((h.broker, h.topic, h.partition), None)
        elif h.kind == "leader":
            self._start(h)
        view = self.of(h)
        if view is not None and reports(h) and h.hw is not None:
            view.hw = h.hw
        if not attempt.of_leader or view is None:
            return False
        tried = h.kind != "fetch" or self._fetched(view, h)
        if h.kind == "isr":
            _commit(view, h)
        view.leo = max(view.leo, h.leader_leo or 0)
        if attempt.hw is not None and attempt.hw.hw is not None:
            view.hw = attempt.hw.hw
        return tried

    def under_min_isr(self, h: Happening, view: LeaderView) -> bool:
        """Whether the HW may not move at all (Partition.isUnderMinIsr)."""
        strict = self._settings.versions.get(h.broker, self._settings.version).strict_min_isr
        return not rules.may_advance(len(view.isr), view.min_isr, len(view.replicas), strict)

    def _start(self, h: Happening) -> None:
        place = (h.broker, h.topic, h.partition)
        before = self._views.get(place)
        led = before is not None and h.broker not in self._restarted and (h.leader_epoch or 0) > (before.epoch or 0)
        self._restarted.discard(h.broker)
        isr, replicas = h.isr or (), h.replicas or h.isr or ()
        view = LeaderView(h.leo or 0, h.hw or 0, h.leader_epoch, isr, replicas, h.min_isr or 1)
        for id in view.others(h.broker):
            known = before.followers.get(id) if led and before is not None else None
            since = h.ts // MS if id in isr else 0
            if known is None:
                view.followers[id] = Follower(id, caught_up=since)
            else:
                view.followers[id] = Follower(id, known.leo, view.leo, since, since)
        self._views[place] = view

    def _fetched(self, view: LeaderView, h: Happening) -> bool:
        if h.replica is None or h.leo is None:
            raise ValueError(f"a fetch must name its replica and offset: {h}")
        follower = view.followers.setdefault(h.replica, Follower(h.replica))
        end = h.leader_leo if h.leader_leo is not None else view.leo
        return follower.fetches(h.leo, end, h.ts // MS, h.broker_epoch)

    def _register(self, broker: int, epoch: int) -> None:
        if epoch > self._broker_epochs.get(broker, -1):
            self._broker_epochs[broker] = epoch
            self._restarted.add(broker)

    def _configure(self, broker: int, topic: str | None, least: int) -> None:
        for (id, name, _), view in self._views.items():
            if id == broker and topic in (None, name):
                view.min_isr = least


def _commit(view: LeaderView, h: Happening) -> None:
    if h.isr is not None:
        view.isr = h.isr
    if h.replicas is not None:
        view.replicas = h.replicas
        others = view.others(h.broker)
        view.followers = {id: view.followers.get(id) or Follower(id) for id in others}
