"""Fewer rows for quiet partitions: fetches that repeat what the last one said and change no fact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from generators.simulator.cluster.happening import Happening


@dataclass
class _Quiet:
    """A replica that fetches at the leader's LEO again and again: when that was told last, and its latest such row."""

    told: int
    latest: int | None = None


def thinned(rows: Sequence[Happening], every_us: int) -> list[Happening]:
    """Rows of one source without those fetches that a later one makes needless.

    A fetch at the leader's LEO may go where the same replica fetches there again with nothing but such fetches told of
    the partition in between, and at most `every_us` between those that stay: last caught up, LEOs and HW come out the
    same. The first and the last of each such stretch are always told.
    """
    needed = [True] * len(rows)
    quiet: dict[tuple[str | None, int], dict[int, _Quiet]] = {}
    for k, h in enumerate(rows):
        place = (h.topic, h.partition)
        if h.kind != "fetch" or h.replica is None or h.leo != h.leader_leo:
            quiet.pop(place, None)
            continue
        stretch = quiet.setdefault(place, {})
        if h.replica not in stretch:
            stretch[h.replica] = _Quiet(h.ts)
            continue
        one = stretch[h.replica]
        if one.latest is not None and h.ts - one.told <= every_us:
            needed[one.latest] = False
        elif one.latest is not None:
            one.told = rows[one.latest].ts
        one.latest = k
    return [h for h, keep in zip(rows, needed, strict=True) if keep]
