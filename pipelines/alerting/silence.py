"""Sources that have stopped telling, by the wall clock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pipelines.alerting.conditions import SECOND, Ask, Condition
from pipelines.alerting.restarts import Restarts, quiet_for

# A cluster that a drain has closed after the source's last word is history, not a silent source.
_SOURCES = """
SELECT t.cluster, t.source_id, t.broker_id, t.told, $now - t.told AS silent,
  coalesce(max(c.closed) >= t.told, false) AS closed
FROM told AS t LEFT JOIN closed AS c USING (cluster)
GROUP BY t.cluster, t.source_id, t.broker_id, t.told ORDER BY t.cluster, t.source_id
"""


def sources(ask: Ask, now: int) -> list[dict[str, Any]]:
    """cluster, source_id, broker_id, told, silent (microseconds at `now`) and closed, of every source."""
    return ask(_SOURCES, now=now)


def silent_sources(name: str, stale_after_s: int, ask: Ask, restarts: Restarts, now: int) -> Iterator[Condition]:
    """Open sources that told nothing for longer, by cluster, unless their broker is being restarted."""
    for row in sources(ask, now):
        quiet = quiet_for(restarts, row["cluster"], [row["broker_id"]])
        if row["closed"] or row["silent"] <= stale_after_s * SECOND or any(s.start <= now < s.end for s in quiet):
            continue
        cluster, told = row["cluster"], row["told"]
        fires = told + stale_after_s * SECOND
        yield Condition(name, cluster, "silent", cluster, row["source_id"], told, fires, told, now, True, row)
