"""What truly causes each change of an ISR: read off the order in which the controller and the leaders act."""

from __future__ import annotations

from generators.simulator.cluster.happening import CONTROLLER, Happening

_BY_STATE = {
    "fenced": "controller_fenced",
    "started": "controller_fenced",  # a new incarnation starts fenced, out of whatever the old one was in
    "controlled_shutdown": "controlled_shutdown",
    "log_dir_offline": "log_dir_offline",
}
_BY_PROPOSAL = {"shrink": "lag", "expand": "caught_up"}


class Causes:
    """Follows what brokers do and what the quorum commits; asked at each `election` or `isr` that changes an ISR."""

    def __init__(self) -> None:
        self._acting: Happening | None = None
        """The broker state that the controller acts on: all that is committed at once with it follows from that."""
        self._proposed: dict[tuple[str | None, int], Happening] = {}

    def observe(self, h: Happening) -> None:
        if h.kind == "broker_state":
            self._acting = h
        elif h.source != CONTROLLER:
            self._acting = None
        if h.kind == "isr_proposed":
            self._proposed[h.topic, h.partition] = h

    def of(self, h: Happening, before: tuple[int, ...], replicas: tuple[int, ...]) -> str:
        """The first that fits, of a change from `before`, with `replicas` assigned until then."""
        after = h.isr or ()
        proposed = self._proposed.get((h.topic, h.partition))
        if h.kind == "election" and h.leader not in before and h.leader in after:
            # a reassignment is complete with the last replica its leader asks in, and may end with that one leading
            asked = (
                proposed is not None and h.leader in (proposed.isr or ()) and proposed.broker not in (h.replicas or ())
            )
            return "reassignment" if asked and h.replicas != replicas and not h.unclean else "election"
        if self._acting is not None and self._acting.ts == h.ts:
            return _BY_STATE.get(self._acting.detail or "", "unknown")
        if proposed is not None and set(proposed.isr or ()) == set(after):
            return _BY_PROPOSAL[proposed.detail or ""]
        return "reassignment" if h.replicas != replicas else "unknown"
