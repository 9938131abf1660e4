"""Fewer rows for quiet partitions: fetches that repeat the last one and change no fact are left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from generators.simulator.cluster.simulation_event import SimulationEvent


@dataclass
class Level:
    """A replica that fetches at the leader's LEO again and again: its last row that is kept, and its latest row."""

    leo: int | None
    kept_at: int
    latest: int | None = None


Levels = dict[tuple[str | None, int], dict[int, Level]]
"""By partition and replica: those that are level with their leaders."""


def thin_fetches(rows: Sequence[SimulationEvent], every_us: int, levels: Levels) -> list[SimulationEvent]:
    """Rows of one source without redundant fetches; `levels` are as the rows before left them.

    A fetch at the leader's LEO may go where the same replica fetches there again, at most `every_us` between rows that
    remain, with only such fetches, appends and HWs of the partition in between: LEOs and HW stay the same, and what it
    would say of last caught up is less than matters. The first one at each LEO remains.
    """
    needed = [True] * len(rows)
    for k, event in enumerate(rows):
        place = (event.topic, event.partition)
        if event.kind in ("append", "hw"):
            continue
        if event.kind != "fetch" or event.replica is None or event.leo != event.leader_leo:
            levels.pop(place, None)
            continue
        known = levels.setdefault(place, {}).setdefault(event.replica, Level(None, event.ts))
        if known.latest is not None and event.ts - known.kept_at <= every_us:
            needed[known.latest] = False
        elif known.latest is not None:
            known.kept_at = rows[known.latest].ts
        if event.leo == known.leo:
            known.latest = k
        else:
            known.leo, known.kept_at, known.latest = event.leo, event.ts, None
    for known in (known for replicas in levels.values() for known in replicas.values()):
        if known.latest is None:
            continue
        if rows[known.latest].ts - known.kept_at < every_us // 2:
            needed[known.latest] = False
        else:
            known.kept_at = rows[known.latest].ts
        known.latest = None
    return [event for event, keep in zip(rows, needed, strict=True) if keep]
