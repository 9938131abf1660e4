"""What of a happening is told at each telemetry level, as far as a real broker's log would show it.

Full (3) tells everything. Lean TRACE (2) and stock INFO (0) tell what `hwmark ingest logs` reads from such logs: a
lean leader prints a rising HW, or else the LEOs of all replicas when it tried in vain; under min ISR it prints none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from generators.simulator.cluster.happening import CONTROLLER, Happening
from generators.simulator.cluster.settings import Settings
from generators.simulator.telemetry.attempts import Attempt, Attempts, reports
from generators.simulator.telemetry.leader_view import LeaderView, LeaderViews, Place

FULL, LEAN, INFO = 3, 2, 0
LEVELS = {"full": FULL, "lean": LEAN, "info": INFO}


_CONTROLLERS_OWN = ("role", "config")
"""What a controller does not tell at level 3: brokers tell of settings themselves, when they go by them."""
_BROKERS_OWN = ("offline", "broker_state")
"""What a broker does not tell in this file."""


class Told(Protocol):
    """A stream of happenings cut to what is told of them."""

    def observe(self, happening: Happening) -> Iterator[Happening]: ...

    def settle(self) -> Iterator[Happening]:
        """What was held back until the next happening."""


def telling(level: int, settings: Settings) -> Told:
    """The stream of one level. Raises ValueError for a level that a log does not have."""
    if level == FULL:
        return _Everything()
    if level not in (LEAN, INFO):
        raise ValueError(f"telemetry level {level}: choose {FULL} (full), {LEAN} (lean) or {INFO} (info)")
    return _Printed(settings, lean=level == LEAN)


class _Everything:
    def observe(self, happening: Happening) -> Iterator[Happening]:
        if happening.kind not in (_CONTROLLERS_OWN if happening.source == CONTROLLER else _BROKERS_OWN):
            yield happening

    def settle(self) -> Iterator[Happening]:
        yield from ()


class _Printed:
    def __init__(self, settings: Settings, lean: bool) -> None:
        self._lean = lean
        self._attempts = Attempts()
        self._views = LeaderViews(settings)
        self._leos: dict[Place, dict[int, int]] = {}
        """Of each led partition the LEOs told so far, the leader's own among them."""
        self._hw: dict[Place, int] = {}
        """The HW told last: what a follower had before, or what a shrink need not repeat."""

    def observe(self, happening: Happening) -> Iterator[Happening]:
        for attempt in self._attempts.observe(happening):
            yield from self._tell(attempt)

    def settle(self) -> Iterator[Happening]:
        for attempt in self._attempts.settle():
            yield from self._tell(attempt)

    def _tell(self, attempt: Attempt) -> Iterator[Happening]:
        h = attempt.by
        view = self._views.of(h)
        gone = [i for i in view.isr if i not in (h.isr or ())] if view and h.kind == "isr_proposed" else []
        tried = self._views.learn(attempt)
        view = self._views.of(h)
        if self._shown(h):
            if gone and view is not None and h.detail == "shrink":
                yield from self._shrink(h, view, gone)
            yield h
        if h.kind in ("leader", "follower"):
            self._leos[_place(h)] = {h.broker: h.leo or 0}
            self._hw[_place(h)] = h.hw or 0
        if self._lean and attempt.hw is not None:
            yield attempt.hw
        elif self._lean and tried and view is not None and not self._views.under_min_isr(h, view):
            leos = {h.broker: view.leo} | {id: view.followers[id].leo for id in view.others(h.broker)}
            yield from self._all_leos(h, leos)

    def _shown(self, h: Happening) -> bool:
        if h.kind == "config" and h.source != CONTROLLER:
            return h.detail is not None  # its version; brokers log no settings, the controller does
        if h.kind == "role" or (h.source != CONTROLLER and h.kind in _BROKERS_OWN):
            return False
        if h.source == CONTROLLER:
            first = h.kind == "election" and not h.partition_epoch
            return self._lean or first or bool(h.unclean) or h.kind in ("broker_state", "config")
        if h.kind == "hw" and not reports(h):
            before, self._hw[_place(h)] = self._hw.get(_place(h), -1), h.hw or 0
            return (h.hw or 0) < before
        if h.kind == "hw":
            return self._lean  # one that nothing before it explains: its broker died before it printed the fetch
        if h.kind in ("append", "fetch"):
            return False
        return self._lean or h.kind != "isr_proposed" or h.detail == "shrink"

    def _all_leos(self, h: Happening, leos: dict[int, int]) -> Iterator[Happening]:
        """The LEOs that differ from what was told of them: the leader's when it grew."""
        told = self._leos.setdefault(_place(h), {})
        for id, leo in leos.items():
            if id == h.broker and leo > told.get(id, -1):
                yield _about(h, "append", leader_leo=leo)
            elif id != h.broker and told.get(id) != leo:
                yield _about(h, "replica_leo", replica=id, leo=leo)
            else:
                continue
            told[id] = leo

    def _shrink(self, h: Happening, view: LeaderView, gone: list[int]) -> Iterator[Happening]:
        """A shrink prints HW and LEO of the leader and the LEOs of those to be dropped."""
        leos = {h.broker: view.leo} | {id: view.followers[id].leo for id in gone if id in view.followers}
        yield from self._all_leos(h, leos)
        if not self._lean and view.hw != self._hw.get(_place(h)):
            self._hw[_place(h)] = view.hw
            yield _about(h, "hw", replica=h.broker, hw=view.hw)


def _place(h: Happening) -> Place:
    return h.broker, h.topic, h.partition


def _about(h: Happening, kind: str, **said: Any) -> Happening:
    """A row of the same moment, leader and term."""
    same = Happening(
        h.at, h.ts, h.broker, h.source, kind, h.topic, h.topic_id, h.partition, h.broker, h.leader_epoch,
        h.partition_epoch,
    )  # fmt: skip
    return same._replace(**said)
