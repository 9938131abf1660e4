"""When brokers answered a watcher; kept between micro-batches."""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import Any

from msgspec import Struct, field

KEPT_ROUNDS = 2
"""How many rounds of a broker are kept at least: their distance is how often it is asked."""
ROUNDS_MISSED = 2
"""A broker that has not answered for so many rounds is silent."""

Round = tuple[int, int]
"""(when a broker had answered a round in full, how far that may be off), microseconds of the watcher's clock."""


class Watched(Struct, omit_defaults=True, forbid_unknown_fields=True):
    """By cluster and broker the rounds that were answered in full, and the times at which rounds before were not."""

    rounds: dict[str, dict[int, list[Round]]] = field(default_factory=dict)
    gaps: dict[str, dict[int, list[int]]] = field(default_factory=dict)
    checks: dict[int, Any] = field(default_factory=dict)
    """In states of before only."""

    def __bool__(self) -> bool:
        return bool(self.rounds or self.gaps)

    def record_round(self, cluster: str, broker: int, ts: int, error: int) -> None:
        """A broker has answered for every replica that it hosts."""
        known = self.rounds.setdefault(cluster, {}).setdefault(broker, [])
        if (ts, error) not in known[-KEPT_ROUNDS:]:
            insort(known, (ts, error))

    def record_gap(self, cluster: str, broker: int, ts: int) -> None:
        """A broker that answers at `ts` did not in the rounds before."""
        known = self.gaps.setdefault(cluster, {}).setdefault(broker, [])
        if ts not in known:
            insort(known, ts)

    def add_rounds(self, more: Watched) -> None:
        """Add the rounds of brokers that other buckets have recorded, each time once."""
        for cluster, brokers in more.rounds.items():
            for broker, rounds in brokers.items():
                for ts, error in rounds:
                    self.record_round(cluster, broker, ts, error)
        for cluster, silences in more.gaps.items():
            for broker, times in silences.items():
                for ts in times:
                    self.record_gap(cluster, broker, ts)

    def last_round(self, cluster: str, broker: int, now: int) -> int:
        """The last instant by `now` up to which every answer of a broker is known, -1 where there is none."""
        known = self.rounds.get(cluster, {}).get(broker, ())
        at = bisect_right(known, (now, 1 << 62))
        return known[at - 1][0] - known[at - 1][1] if at else -1

    def answered_always(self, cluster: str, broker: int, after: int, until: int) -> bool:
        """Whether a broker answered every round in (after, until]."""
        return not any(after < ts <= until for ts in self.gaps.get(cluster, {}).get(broker, ()))

    def silent(self, grace: int) -> list[tuple[str, int]]:
        """(cluster, broker) of those that have not answered for some rounds, and for the grace."""
        found = []
        for cluster, brokers in self.rounds.items():
            newest = max(brokers.values(), key=lambda known: known[-1])
            often = newest[-1][0] - newest[-KEPT_ROUNDS][0] if len(newest) >= KEPT_ROUNDS else 0
            limit = newest[-1][0] - max(grace, ROUNDS_MISSED * often)
            found += [(cluster, broker) for broker, known in brokers.items() if known[-1][0] < limit]
        return found

    def forget(self, cluster: str, decided: int, oldest_gap: int) -> None:
        """Drop rounds that no row will ask for any more, those before the last one by `decided`, and of old gaps all
        but the newest: nobody asks of a time before it, so that it answers for the others."""
        for known in self.rounds.get(cluster, {}).values():
            at = bisect_right(known, (decided, 1 << 62))
            del known[: max(min(at - 1, len(known) - KEPT_ROUNDS), 0)]
        for gaps in self.gaps.get(cluster, {}).values():
            del gaps[: max(bisect_right(gaps, oldest_gap) - 1, 0)]
