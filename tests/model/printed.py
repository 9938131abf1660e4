"""The rows that a cluster prints of one partition's history, at each telemetry level."""

from __future__ import annotations

from collections.abc import Iterable

from tests.model.partition import Happening
from tests.unit.replication.bronze import Source

FULL, LEAN, INFO = 3, 2, 0
WIDE = ("broker_state", "config", "version", "progress")


def printed(happenings: Iterable[Happening], cluster: str, level: int, controller: str = "debug") -> list[Source]:
    """The rows of every node; the `controller` logs at debug, at info, or nothing."""
    happenings = [h for h in happenings if h.node or controller != "none"]
    nodes = {h.node for h in happenings}
    sources = {n: _source(n, cluster, level) for n in sorted(nodes)}
    leos: dict[int, dict[int, int]] = {n: {} for n in nodes}
    for h in happenings:
        source = sources[h.node]
        if h.node == 0:
            if controller == "debug" or _at_info(h):
                _controllers_row(source, h)
        elif level == FULL:
            _full(source, h)
        else:
            _less(source, h, level, leos[h.node])
    return list(sources.values())


def _source(node: int, cluster: str, level: int) -> Source:
    if not node:
        return Source("controller-9/controller.log", cluster=cluster, level=INFO)
    return Source(f"broker-{node}/replication.log", cluster=cluster, level=level)


def _at_info(h: Happening) -> bool:
    first = h.kind == "election" and not h.columns["partition_epoch"]
    return first or h.kind not in ("election", "isr") or bool(h.columns.get("unclean"))


def _controllers_row(source: Source, h: Happening) -> None:
    committed = {"committed": True} if h.kind in ("election", "isr") else {}
    wide = h.kind in WIDE
    if h.kind == "config":
        source.event(h.ms, "config", True, topic="clicks", **h.columns)
    else:
        source.event(h.ms, h.kind, wide, **h.columns, **committed)


def _full(source: Source, h: Happening) -> None:
    _row(source, h)
    if h.rose:
        _rose(source, h)


def _row(source: Source, h: Happening) -> None:
    if h.kind == "version":
        source.event(h.ms, "config", True, replica_id=source.broker, detail="kafka=4.1.1")
        if h.columns["clean"] is not None:
            detail = "start=clean" if h.columns["clean"] else "start=unclean"
            source.event(h.ms, "config", True, replica_id=source.broker, detail=detail)
    else:
        about = {"leader_id": source.broker} if h.kind in ("append", "fetch") else {}
        source.event(h.ms, h.kind, h.kind in WIDE, **about, **h.columns)


def _rose(source: Source, h: Happening) -> None:
    before, hw = h.rose or (0, 0)
    me = source.broker
    source.event(h.ms, "hw", replica_id=me, leader_id=me, hw=hw, hw_before=before)


def _less(source: Source, h: Happening, level: int, known: dict[int, int]) -> None:
    """Lean TRACE or stock INFO: no line of an append or a fetch, but all LEOs where an attempt was in vain."""
    if h.kind == "isr_proposed" and h.columns["detail"] == "shrink":
        kept = set(h.columns["isr"]) - {source.broker}
        _leos(source, h, {b: leo for b, leo in (h.leos or {}).items() if b not in kept}, known)
        if level == INFO:
            source.event(h.ms, "hw", replica_id=source.broker, leader_id=source.broker, hw=h.hw)
    if _is_printed(h, level):
        _row(source, h)
    if h.kind in ("leader", "follower"):
        known.clear()
        known[source.broker] = h.columns["leo"]
    if level == LEAN and h.rose:
        _rose(source, h)
    elif level == LEAN and h.tried and not h.frozen:
        _leos(source, h, h.leos or {}, known)


def _is_printed(h: Happening, level: int) -> bool:
    if h.kind in ("append", "fetch"):
        return False
    if h.kind == "hw":
        return bool(h.columns["hw"] < h.columns["hw_before"])
    return level == LEAN or h.kind != "isr_proposed" or h.columns["detail"] == "shrink"


def _leos(source: Source, h: Happening, leos: dict[int, int], known: dict[int, int]) -> None:
    me = source.broker
    for b, leo in leos.items():
        if b == me and leo > known.get(b, -1):
            source.event(h.ms, "append", leader_id=me, leader_leo=leo)
        elif b != me and known.get(b) != leo:
            source.event(h.ms, "replica_leo", leader_id=me, replica_id=b, leo=leo)
        else:
            continue
        known[b] = leo
