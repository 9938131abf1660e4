"""Sources that have stopped reporting, and watchers that see nothing, by the wall clock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic.dataclasses import dataclass

from pipelines.alerting.conditions import SECOND, Condition, ended_recording
from pipelines.alerting.restarts import quiet_for
from pipelines.alerting.rule import STRICT, About, AlertRule, Evaluation, LastingSettings, RuleSettings, Seconds
from pipelines.lake.queries import moment
from pipelines.verdict.judged import silence
from pipelines.verdict.records import Source
from schemas.replication_events import WATCHER

# A broker is not silent that was taken out of its cluster. Nothing falls silent in a cluster that a drain has closed,
# as it is history, nor a broker of which a watcher tells that sees nothing at all. None of that ends a silence that
# fires: a report does, or the end of the recording, a day after the last of it came.
_SOURCES = """
SELECT t.*, $now - reported_to AS silent, cluster IN (FROM ended_recordings) AS over,
  cluster IN (FROM closed)
    OR (starts_with(source_id, $watcher) AND cluster IN (SELECT cluster FROM blind_watchers)) AS excused,
  EXISTS (
    FROM fired AS f WHERE f.rule = $rule AND f.cluster = t.cluster AND coalesce(f.source_id, t.source_id) = t.source_id
      AND t.reported_to <= f.last) AS fired
FROM reported AS t
WHERE NOT EXISTS (
  FROM brokers AS b WHERE b.cluster = t.cluster AND b.broker_id = t.broker_id AND b.state = 'unregistered'
    AND b.state_ts >= t.reported_to)
ORDER BY cluster, source_id
"""
_BLIND = """
SELECT *, cluster IN (FROM ended_recordings) AS over FROM (
  SELECT *, EXISTS (FROM fired AS f WHERE f.rule = $rule AND f.cluster = b.cluster AND b.since <= f.last) AS told
  FROM blind_watchers AS b)
WHERE told OR cluster NOT IN (FROM closed) ORDER BY cluster
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
    for row in evaluation.ask(_SOURCES, now=now, watcher=WATCHER, rule=name):
        quiet = quiet_for(evaluation.restarts, row["cluster"], [row["broker_id"]])
        excused = row["excused"] or any(s.start <= now < s.end for s in quiet)
        if not row["fired"] and (excused or row["silent"] <= limit):
            continue
        source, last, open_ = row["source_id"], row["reported_to"], not row["over"]
        fires = min(last + limit, now)  # later only of one that fired before this clock was set back
        yield Condition(name, row["cluster"], "silent", source, source, last, fires, last, now, open_, row)


def _sentence(conditions: Sequence[Condition]) -> str:
    said = silence([Source(c.item, c.facts["broker_id"], moment(c.first)) for c in conditions])
    return ended_recording(conditions) + said


STALE_SOURCE = AlertRule(
    "stale_source",
    StaleSettings(),
    _silent,
    _sentence,
    ("reported", "brokers"),
    About.SOURCES,
    withdrawn="reports again, or unregistered",
)


def _cut_off(name: str, settings: LastingSettings, evaluation: Evaluation) -> Iterator[Condition]:
    """Clusters of which every watcher has seen nothing for `for_s` seconds of the wall clock, and no log tells."""
    now = evaluation.now
    for row in evaluation.ask(_BLIND, rule=name):
        since, cluster, open_ = row["since"], row["cluster"], not row["over"]
        if (fires := since + settings.for_s * SECOND) <= now or row["told"]:
            yield Condition(name, cluster, "watcher", cluster, "watcher", since, min(fires, now), now, now, open_, row)


def _said(conditions: Sequence[Condition]) -> str:
    return f"{ended_recording(conditions)}{conditions[0].facts['words']}"


WATCHER_CUT_OFF = AlertRule(
    "watcher_cut_off",
    LastingSettings(severity="critical", for_s=60),
    _cut_off,
    _said,
    ("reported", "blind_watchers"),
    About.CLUSTER,
    withdrawn="a broker answers the watcher again, or a log of the cluster is read",
)
RULES = (STALE_SOURCE, WATCHER_CUT_OFF)
