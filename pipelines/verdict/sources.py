"""What the sources of a lake's clusters have reported lately, and which brokers went down: one query to bronze."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from pipelines.lake.lake import Lake
from pipelines.lake.queries import Row, after, query, text
from pipelines.streaming.source.closings import closings
from pipelines.verdict.records import Source
from schemas import replication_events
from schemas.replication_events import DRAIN

DOWN = ("controlled_shutdown", "fenced", "unregistered")

# A controller that restarts repeats old broker states with new times: the earliest time of one counts, and of two
# incarnations of a broker the later.
_REPORTS = """
SELECT cluster, event_type, source_id, broker_id, NULL AS replica_id, NULL AS broker_epoch, detail, min(ts) AS first,
  max(ts) AS last, last_value(level ORDER BY ts) AS level
FROM t WHERE event_type = 'progress' AND {window} GROUP BY cluster, event_type, source_id, broker_id, detail
UNION ALL
SELECT cluster, event_type, NULL, NULL, replica_id, broker_epoch, detail, min(ts), max(ts), NULL
FROM t WHERE event_type = 'broker_state' AND {window}
GROUP BY cluster, event_type, replica_id, detail, broker_epoch, CASE WHEN broker_epoch IS NULL THEN ts END
ORDER BY first
"""


@dataclass
class Reports:
    """Of one cluster: its sources, when a drain closed it, and since when which brokers are down."""

    sources: list[Source] = field(default_factory=list)
    closed: datetime | None = None
    states: dict[int, tuple[int, datetime, str]] = field(default_factory=dict)
    """By broker its latest incarnation, and the last that was said of that: since when it is what."""

    @property
    def down(self) -> dict[int, datetime]:
        return {broker: ts for broker, (_, ts, detail) in self.states.items() if detail in DOWN}

    def take(self, row: Row) -> None:
        """Adds one group of rows; those of broker states come in order of time."""
        if row["event_type"] == "broker_state":
            known, _, _ = self.states.get(row["replica_id"], (-1, None, ""))
            epoch = known if row["broker_epoch"] is None else row["broker_epoch"]
            if epoch >= known:
                self.states[row["replica_id"]] = epoch, row["first"], row["detail"]
        elif row["source_id"] == DRAIN:
            self.closed = row["last"] if row["detail"] == "closed" else self.closed
        else:
            self.sources.append(Source(row["source_id"], row["broker_id"], row["last"], row["level"]))


def reports(lake: Lake, presents: Mapping[str, datetime], seconds: int) -> dict[str, Reports]:
    """What was reported since so long before the present of each cluster; clusters without a present have none."""
    bronze = lake.find(replication_events.TABLE)
    found: dict[str, Reports] = defaultdict(Reports)
    if bronze is None or not presents:
        return found
    window = after({c: ts - timedelta(seconds=seconds) for c, ts in presents.items()}, "ts", "cluster")
    judged = f"cluster IN ({', '.join(map(text, presents))})"
    for row in query(bronze, _REPORTS.format(window=f"{judged} AND {window}")):
        found[row["cluster"]].take(row)
    for row in closings(lake):
        if (report := found.get(row["cluster"])) is not None:
            report.closed = max(row["ts"], report.closed or row["ts"])
    return found
