"""Sources that have stopped reporting, and watchers that see nothing, by the wall clock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic.dataclasses import dataclass

from pipelines.alerting.conditions import SECOND, Condition
from pipelines.alerting.restarts import quiet_for
from pipelines.alerting.rule import STRICT, About, AlertRule, Evaluation, LastingSettings, RuleSettings, Seconds
from pipelines.alerting.state import RECORDING_ENDED
from pipelines.lake.queries import moment
from pipelines.verdict.judged import silence
from pipelines.verdict.records import Source
from schemas.replication_events import WATCHER

# A cluster that a drain has closed is history, and nothing in it falls silent; but a drain alone ends nothing that
# fires: the recording ends a day after the last of it came.
_OVER = """cluster IN (FROM ended_recordings) AS over,
  cluster NOT IN (FROM closed) OR ({source} IN (SELECT {fired} FROM fired WHERE rule = $rule)) AS holds"""
# A broker is not silent that was taken out of its cluster, or one that a watcher asks which sees nothing at all.
_SOURCES = f"""
SELECT t.*, $now - t.reported_to AS silent, {_OVER.format(source="(cluster, source_id)", fired="(cluster, source_id)")}
FROM reported AS t
WHERE NOT (starts_with(source_id, $watcher) AND cluster IN (SELECT cluster FROM blind_watchers))
  AND NOT EXISTS (
    FROM brokers AS b WHERE b.cluster = t.cluster AND b.broker_id = t.broker_id AND b.state = 'unregistered'
      AND b.state_ts >= t.reported_to)
ORDER BY cluster, source_id
"""
_BLIND = f"SELECT *, {_OVER.format(source='cluster', fired='cluster')} FROM blind_watchers ORDER BY cluster"


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
        if not row["holds"] or row["silent"] <= limit or any(s.start <= now < s.end for s in quiet):
            continue
        source, last, open_ = row["source_id"], row["reported_to"], not row["over"]
        yield Condition(name, row["cluster"], "silent", source, source, last, last + limit, last, now, open_, row)


def _sentence(conditions: Sequence[Condition]) -> str:
    said = silence([Source(c.item, c.facts["broker_id"], moment(c.first)) for c in conditions])
    return _ended(conditions) + said


STALE_SOURCE = AlertRule(
    "stale_source",
    StaleSettings(),
    _silent,
    _sentence,
    ("reported",),
    About.SOURCES,
    withdrawn="reports again, or unregistered",
)


def _cut_off(name: str, settings: LastingSettings, evaluation: Evaluation) -> Iterator[Condition]:
    """Clusters of which every watcher has seen nothing for `for_s` seconds of the wall clock, and no log tells."""
    now = evaluation.now
    for row in evaluation.ask(_BLIND, rule=name):
        since, cluster, open_ = row["since"], row["cluster"], not row["over"]
        if row["holds"] and (fires := since + settings.for_s * SECOND) <= now:
            yield Condition(name, cluster, "watcher", cluster, "watcher", since, fires, now, now, open_, row)


def _said(conditions: Sequence[Condition]) -> str:
    return f"{_ended(conditions)}{conditions[0].facts['words']}"


def _ended(conditions: Sequence[Condition]) -> str:
    return f"{RECORDING_ENDED}, then: " if any(c.facts["over"] for c in conditions) else ""


WATCHER_CUT_OFF = AlertRule(
    "watcher_cut_off",
    LastingSettings(severity="critical", for_s=60),
    _cut_off,
    _said,
    ("reported", "blind_watchers"),
    About.CLUSTER,
    withdrawn="a broker answers the watcher again",
)
RULES = (STALE_SOURCE, WATCHER_CUT_OFF)
