"""Controlled restarts: when a broker that was stopped on purpose may be missing without an alert."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import NamedTuple

from pipelines.alerting.conditions import SECOND, Ask


class Quiet(NamedTuple):
    """A span of time in microseconds; `back`: it ended because the broker came back."""

    start: int
    end: int
    back: bool


Restarts = Mapping[tuple[str, int], tuple[Quiet, ...]]

# A controller that restarts repeats old states with new times: the earliest time of one counts.
_RESTARTS = """
WITH states AS (
  SELECT cluster, replica_id AS broker, detail, min(ts) AS ts FROM broker_states
  GROUP BY cluster, replica_id, detail, broker_epoch, CASE WHEN broker_epoch IS NULL THEN ts END)
SELECT down.cluster, down.broker, down.ts AS start, min(up.ts) AS back
FROM states AS down LEFT JOIN states AS up
  ON up.cluster = down.cluster AND up.broker = down.broker AND up.ts > down.ts
  AND up.detail IN ('started', 'unfenced')
WHERE down.detail = 'controlled_shutdown'
GROUP BY ALL ORDER BY start
"""


def controlled_restarts(ask: Ask, limit_s: int) -> Restarts:
    """The restarts in `broker_states` (times in microseconds) per cluster and broker, in order of time."""
    found: dict[tuple[str, int], list[Quiet]] = {}
    for row in ask(_RESTARTS):
        limit = row["start"] + limit_s * SECOND
        back = row["back"] is not None and row["back"] <= limit
        quiet = Quiet(row["start"], row["back"] if back else limit, back)
        found.setdefault((row["cluster"], row["broker"]), []).append(quiet)
    return {key: tuple(spans) for key, spans in found.items()}


def quiet_for(restarts: Restarts, cluster: str, brokers: Iterable[int]) -> tuple[Quiet, ...]:
    """Return the spans in which all these brokers are in a controlled restart at once; empty if `brokers` is empty."""
    spans = [restarts.get((cluster, broker), ()) for broker in brokers]
    return reduce(_both, spans) if spans else ()


def _both(left: tuple[Quiet, ...], right: tuple[Quiet, ...]) -> tuple[Quiet, ...]:
    return tuple(
        Quiet(max(a.start, b.start), *min((a.end, a.back), (b.end, b.back)))
        for a in left
        for b in right
        if max(a.start, b.start) < min(a.end, b.end)
    )


def firing_time(first: int, lasting: int, quiet: Iterable[Quiet]) -> int:
    """When a state that began at `first` and must last for `lasting` microseconds may be reported.

    A broker that came back gets the whole duration anew to catch up; one that did not, gets the limit.
    """
    fires = first + lasting
    for span in sorted(quiet):
        if span.end > first and span.start <= fires:
            fires = max(fires, span.end + (lasting if span.back else 0))
    return fires
