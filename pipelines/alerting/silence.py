"""Sources that have stopped reporting, and watchers that see nothing, by the wall clock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic.dataclasses import dataclass

from pipelines.alerting.conditions import SECOND, Condition
from pipelines.alerting.restarts import quiet_for
from pipelines.alerting.rule import STRICT, About, AlertRule, Evaluation, LastingSettings, RuleSettings, Seconds
from pipelines.lake.queries import moment
from pipelines.verdict.judged import silence
from pipelines.verdict.records import Source
from schemas.replication_events import WATCHER

# A cluster that a drain has closed after the source's last report is history, not a silent source; nor is a broker
# silent that was taken out of its cluster, or one that a watcher asks which sees nothing at all.
_SOURCES = """
SELECT t.cluster, t.source_id, t.broker_id, t.reported_to, $now - t.reported_to AS silent,
  coalesce(max(c.closed) >= t.reported_to, false)
    OR coalesce(bool_or(b.state = 'unregistered' AND b.state_ts >= t.reported_to), false) AS closed
FROM reported AS t LEFT JOIN closed AS c USING (cluster)
LEFT JOIN brokers AS b ON b.cluster = t.cluster AND b.broker_id = t.broker_id
WHERE NOT (starts_with(t.source_id, $watcher) AND t.cluster IN (SELECT cluster FROM blind_watchers))
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
    for row in evaluation.ask(_SOURCES, now=now, watcher=WATCHER):
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


def _cut_off(name: str, settings: LastingSettings, evaluation: Evaluation) -> Iterator[Condition]:
    """Clusters of which every watcher has seen nothing for `for_s` seconds of the wall clock, and no log tells."""
    now = evaluation.now
    for row in evaluation.ask("SELECT * FROM blind_watchers ORDER BY cluster"):
        since, cluster = row["since"], row["cluster"]
        if (fires := since + settings.for_s * SECOND) <= now:
            yield Condition(name, cluster, "watcher", cluster, "watcher", since, fires, now, now, True, row)


def _said(conditions: Sequence[Condition]) -> str:
    return str(conditions[0].facts["words"])


WATCHER_CUT_OFF = AlertRule(
    "watcher_cut_off",
    LastingSettings(severity="critical", for_s=60),
    _cut_off,
    _said,
    ("reported", "blind_watchers"),
    About.CLUSTER,
    withdrawn="a broker answers the watcher again, or the recording was closed",
)
RULES = (STALE_SOURCE, WATCHER_CUT_OFF)
