"""The state of one broker as a source of rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise

from generators.cluster.observing.rows import Source

LEAST_HOLDS_S, MOST_HOLDS_S = 10, 60
"""The limits of `holds_s`: readers of a lake look every 5 s, and a claim of the present is never older than a minute.

Intervals above 30 s raise the upper limit to two intervals.
"""


@dataclass
class SourceState:
    """The state of one broker as a source of rows."""

    source: Source
    began: bool = False
    told: str = ""
    """The last row's word on whether the broker answers."""
    missed: dict[str, tuple[int, str]] = field(default_factory=dict)
    """The rounds missing since `since_us`: their number by kind, and the reason of the last."""
    since_us: int = 0
    rounds: list[int] = field(default_factory=list)
    """When the last rounds without a missed one between them ended, at most three."""

    def holds_s(self, ended_us: int, interval_s: float) -> int:
        """Return how long a claim of the present may rest on the round that ended now: two rounds as they took."""
        self.rounds = [*self.rounds[-2:], ended_us]
        longest_s = max((b - a for a, b in pairwise(self.rounds)), default=0) / 1e6
        most_s = max(MOST_HOLDS_S, 2 * interval_s)
        return round(min(max(LEAST_HOLDS_S, 2 * max(longest_s, interval_s)), most_s))

    def miss(self, since_us: int, kind: str, why: str) -> None:
        """Count a round that has no rows, from `since_us` on."""
        self.since_us = self.since_us if self.missed else since_us
        self.missed[kind] = self.missed.get(kind, (0, ""))[0] + 1, why
        self.rounds = []

    def gap(self, until_us: int) -> str:
        """Return the beginning and end of the missing rounds, their number, and the reason."""
        counted = (f"{'once' if n == 1 else f'{n} times'} {kind}: {why}" for kind, (n, why) in self.missed.items())
        return f"from {_time(self.since_us)} to {_time(until_us)} {', '.join(counted)}"


def _time(ts_us: int) -> str:
    return f"{datetime.fromtimestamp(ts_us / 1e6, UTC):%Y-%m-%d %H:%M:%S} UTC"
