"""The events at each telemetry level, as far as a real broker's log would show them.

Full (3) has all. Lean TRACE (2) and stock INFO (0) have what `hwmark ingest logs` reads from such logs: a lean leader
prints a rising HW, or else the LEOs of all replicas after a vain attempt; under min ISR it prints none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from generators.simulator.cluster.settings import Settings
from generators.simulator.cluster.simulation_event import CONTROLLER, REPLICATION, SimulationEvent
from generators.simulator.telemetry.attempts import Attempt, Attempts, reports
from generators.simulator.telemetry.leader_view import LeaderView, LeaderViews, Place

FULL, LEAN, INFO = 3, 2, 0
COVERS = {
    REPLICATION: ("terms", "hw_falls", "truncations", "isr", "brokers"),
    CONTROLLER: ("elections", "unclean_elections", "brokers", "assignments", "configs", "topics"),
    "state-change": ("terms",),
    "server": ("hw_falls", "truncations", "isr", "brokers"),
}
"""By log the kinds of evidence that it has at any level; from lean on HWs, too."""


_NOT_FROM_CONTROLLERS = ("role", "config")
"""Events of controllers that are left out at level 3: brokers emit settings themselves, when they apply them."""
_NOT_FROM_BROKERS = ("offline", "broker_state")
"""Events of brokers that are not in this file."""


class LevelFilter(Protocol):
    """A stream of events, reduced to those of a level."""

    def observe(self, event: SimulationEvent) -> Iterator[SimulationEvent]: ...

    def settle(self) -> Iterator[SimulationEvent]:
        """Events that were held back until the next one."""


def level_filter(level: int, settings: Settings) -> LevelFilter:
    """The filter of one level. Raises ValueError for a level that a log does not have."""
    if level == FULL:
        return _FullLevel()
    if level not in (LEAN, INFO):
        raise ValueError(f"telemetry level {level}: choose {FULL} (full), {LEAN} (lean) or {INFO} (info)")
    return _LogLevel(settings, lean=level == LEAN)


class _FullLevel:
    def observe(self, event: SimulationEvent) -> Iterator[SimulationEvent]:
        if event.kind not in (_NOT_FROM_CONTROLLERS if event.source == CONTROLLER else _NOT_FROM_BROKERS):
            yield event

    def settle(self) -> Iterator[SimulationEvent]:
        yield from ()


class _LogLevel:
    def __init__(self, settings: Settings, lean: bool) -> None:
        self._lean = lean
        self._attempts = Attempts()
        self._views = LeaderViews(settings)
        self._leos: dict[Place, dict[int, int]] = {}
        """By led partition the LEOs in rows so far, the leader's own among them."""
        self._hw: dict[Place, int] = {}
        """The last HW in a row: a follower's HW before, or one that a shrink need not repeat."""

    def observe(self, event: SimulationEvent) -> Iterator[SimulationEvent]:
        for attempt in self._attempts.observe(event):
            yield from self._rows_of(attempt)

    def settle(self) -> Iterator[SimulationEvent]:
        for attempt in self._attempts.settle():
            yield from self._rows_of(attempt)

    def _rows_of(self, attempt: Attempt) -> Iterator[SimulationEvent]:
        event = attempt.by
        view = self._views.of(event)
        gone = [i for i in view.isr if i not in (event.isr or ())] if view and event.kind == "isr_proposed" else []
        tried = self._views.learn(attempt)
        view = self._views.of(event)
        if self._is_printed(event):
            if gone and view is not None and event.detail == "shrink":
                yield from self._shrink(event, view, gone)
            yield event
        if event.kind in ("leader", "follower"):
            self._leos[_place(event)] = {event.broker: event.leo or 0}
            self._hw[_place(event)] = event.hw or 0
        if self._lean and attempt.hw is not None:
            yield attempt.hw
        elif self._lean and tried and view is not None and not self._views.under_min_isr(event, view):
            leos = {event.broker: view.leo} | {id: view.followers[id].leo for id in view.others(event.broker)}
            yield from self._all_leos(event, leos)

    def _is_printed(self, event: SimulationEvent) -> bool:
        if event.kind == "config" and event.source != CONTROLLER:
            return event.detail is not None  # its version; brokers log no settings, the controller does
        if event.kind == "role" or (event.source != CONTROLLER and event.kind in _NOT_FROM_BROKERS):
            return False
        if event.source == CONTROLLER:
            first = event.kind == "election" and not event.partition_epoch
            return self._lean or first or bool(event.unclean) or event.kind in ("broker_state", "config")
        if event.kind == "hw" and not reports(event):
            before, self._hw[_place(event)] = self._hw.get(_place(event), -1), event.hw or 0
            return (event.hw or 0) < before
        if event.kind == "hw":
            return self._lean  # no event before it explains it: its broker died before it printed the fetch
        if event.kind in ("append", "fetch"):
            return False
        return self._lean or event.kind != "isr_proposed" or event.detail == "shrink"

    def _all_leos(self, event: SimulationEvent, leos: dict[int, int]) -> Iterator[SimulationEvent]:
        """Rows for the LEOs that differ from those in earlier rows: the leader's when it grew."""
        known = self._leos.setdefault(_place(event), {})
        for id, leo in leos.items():
            if id == event.broker and leo > known.get(id, -1):
                yield _about(event, "append", leader_leo=leo)
            elif id != event.broker and known.get(id) != leo:
                yield _about(event, "replica_leo", replica=id, leo=leo)
            else:
                continue
            known[id] = leo

    def _shrink(self, event: SimulationEvent, view: LeaderView, gone: list[int]) -> Iterator[SimulationEvent]:
        """A shrink prints HW and LEO of the leader and the LEOs of the replicas to be removed."""
        leos = {event.broker: view.leo} | {id: view.followers[id].leo for id in gone if id in view.followers}
        yield from self._all_leos(event, leos)
        if not self._lean and view.hw != self._hw.get(_place(event)):
            self._hw[_place(event)] = view.hw
            yield _about(event, "hw", replica=event.broker, hw=view.hw)


def _place(event: SimulationEvent) -> Place:
    return event.broker, event.topic, event.partition


def _about(event: SimulationEvent, kind: str, **fields: Any) -> SimulationEvent:
    """An event of the same moment, leader and term."""
    same = SimulationEvent(
        event.at,
        event.ts,
        event.broker,
        event.source,
        kind,
        event.topic,
        event.topic_id,
        event.partition,
        event.broker,
        event.leader_epoch,
        event.partition_epoch,
    )
    return same._replace(**fields)
