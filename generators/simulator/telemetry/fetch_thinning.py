"""Fewer rows for quiet partitions: fetches that repeat the last one and change no fact are left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from generators.simulator.cluster.simulation_event import SimulationEvent


@dataclass
class _Quiet:
    """A replica that fetches at the leader's LEO again and again: time of its last row that is kept, and its latest
    row."""

    kept_at: int
    latest: int | None = None


def thin_fetches(rows: Sequence[SimulationEvent], every_us: int) -> list[SimulationEvent]:
    """Rows of one source without those fetches that a later one makes redundant.

    A fetch at the leader's LEO may go where the same replica fetches there again, with only such fetches of the
    partition in between, and at most `every_us` between rows that remain: last caught up, LEOs and HW stay the same.
    The first and the last of each such stretch remain.
    """
    needed = [True] * len(rows)
    quiet: dict[tuple[str | None, int], dict[int, _Quiet]] = {}
    for k, event in enumerate(rows):
        place = (event.topic, event.partition)
        if event.kind != "fetch" or event.replica is None or event.leo != event.leader_leo:
            quiet.pop(place, None)
            continue
        stretch = quiet.setdefault(place, {})
        if event.replica not in stretch:
            stretch[event.replica] = _Quiet(event.ts)
            continue
        repeats = stretch[event.replica]
        if repeats.latest is not None and event.ts - repeats.kept_at <= every_us:
            needed[repeats.latest] = False
        elif repeats.latest is not None:
            repeats.kept_at = rows[repeats.latest].ts
        repeats.latest = k
    return [event for event, keep in zip(rows, needed, strict=True) if keep]
