"""The true cause of each ISR change, from the order in which the controller and the leaders act."""

from __future__ import annotations

from generators.simulator.cluster.simulation_event import CONTROLLER, SimulationEvent

_BY_STATE = {
    "fenced": "controller_fenced",
    "started": "controller_fenced",  # a new incarnation starts fenced, out of whatever the old one was in
    "controlled_shutdown": "controlled_shutdown",
    "log_dir_offline": "log_dir_offline",
}
_BY_PROPOSAL = {"shrink": "lag", "expand": "caught_up"}


class Causes:
    """Follows what brokers do and what the quorum commits; called at each `election` or `isr` that changes an ISR."""

    def __init__(self) -> None:
        self._acting: SimulationEvent | None = None
        """The broker state that the controller acts on: all that is committed at the same time follows from it."""
        self._proposed: dict[tuple[str | None, int], SimulationEvent] = {}

    def observe(self, event: SimulationEvent) -> None:
        if event.kind == "broker_state":
            self._acting = event
        elif event.source != CONTROLLER:
            self._acting = None
        if event.kind == "isr_proposed":
            self._proposed[event.topic, event.partition] = event

    def of(self, event: SimulationEvent, before: tuple[int, ...], replicas: tuple[int, ...]) -> str:
        """The first cause that fits a change from `before`, with `replicas` assigned until then."""
        after = event.isr or ()
        proposed = self._proposed.get((event.topic, event.partition))
        if event.kind == "election" and event.leader not in before and event.leader in after:
            # a reassignment is complete with the last replica its leader asks in, and may end with that one leading
            asked = (
                proposed is not None
                and event.leader in (proposed.isr or ())
                and proposed.broker not in (event.replicas or ())
            )
            return "reassignment" if asked and event.replicas != replicas and not event.unclean else "election"
        if self._acting is not None and self._acting.ts == event.ts:
            return _BY_STATE.get(self._acting.detail or "", "unknown")
        if proposed is not None and set(proposed.isr or ()) == set(after):
            return _BY_PROPOSAL[proposed.detail or ""]
        return "reassignment" if event.replicas != replicas else "unknown"
