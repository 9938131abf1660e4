"""Sources that have stopped reporting, by the wall clock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic.dataclasses import dataclass

from pipelines.alerting.conditions import SECOND, Condition
from pipelines.alerting.restarts import quiet_for
from pipelines.alerting.rule import STRICT, About, AlertRule, Evaluation, RuleSettings, Seconds
from pipelines.lake.queries import moment
from pipelines.verdict.judged import silence
from pipelines.verdict.records import Source

# A cluster that a drain has closed after the source's last report is history, not a silent source; nor is a broker
# silent that was taken out of its cluster.
_SOURCES = """
SELECT t.cluster, t.source_id, t.broker_id, t.reported_to, $now - t.reported_to AS silent,
  coalesce(max(c.closed) >= t.reported_to, false)
    OR coalesce(bool_or(b.state = 'unregistered' AND b.state_ts >= t.reported_to), false) AS closed
FROM reported AS t LEFT JOIN closed AS c USING (cluster)
LEFT JOIN brokers AS b ON b.cluster = t.cluster AND b.broker_id = t.broker_id
GROUP BY t.cluster, t.source_id, t.broker_id, t.reported_to ORDER BY t.cluster, t.source_id
"""


@dataclass(frozen=True, config=STRICT)
class StaleSettings(RuleSettings):
    """Fires when a source has reported nothing for `stale_after_s` seconds of the wall clock.

    Sources that fell silent up to `group_s` seconds apart are one alert; one that does so later is its own.
    """

    stale_after_s: Seconds = 300
    group_s: Seconds = 60


def _silent(name: str, settings: StaleSettings, evaluation: Evaluation) -> Iterator[Condition]:
    """Open sources that reported nothing for longer, unless their broker is being restarted."""
    limit, now = settings.stale_after_s * SECOND, evaluation.now
    for row in evaluation.ask(_SOURCES, now=now):
        quiet = quiet_for(evaluation.restarts, row["cluster"], [row["broker_id"]])
        if row["closed"] or row["silent"] <= limit or any(s.start <= now < s.end for s in quiet):
            continue
        source, last = row["source_id"], row["reported_to"]
        yield Condition(name, row["cluster"], "silent", source, source, last, last + limit, last, now, True, row)


def _sentence(conditions: Sequence[Condition]) -> str:
    return silence([Source(c.item, c.facts["broker_id"], moment(c.first)) for c in conditions])


STALE_SOURCE = AlertRule(
    "stale_source",
    StaleSettings(),
    _silent,
    _sentence,
    ("reported",),
    About.SOURCES,
    withdrawn="reports again, closed, or unregistered",
)
RULES = (STALE_SOURCE,)
