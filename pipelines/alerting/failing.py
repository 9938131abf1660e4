"""Notification channels that accept nothing, by the wall clock, from the attempts that `hwmark notify` wrote."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic.dataclasses import dataclass

from pipelines.alerting.conditions import SECOND, Condition
from pipelines.alerting.rule import STRICT, About, AlertRule, Evaluation, RuleSettings, Seconds
from pipelines.lake.queries import moment
from pipelines.verdict import words

FORGOTTEN_S = 3_600
"""Seconds without an attempt, or three times the last gap, after which a channel counts as removed from the settings,
or `notify` as stopped, which the watchdog says."""

# Failed attempts since the last one that went through, for each alert and for the channel as a whole. Attempts that a
# kill cut off do not count.
_FAILING = """
WITH fine AS (
  SELECT channel, alert_id, episode, max(sent_at) AS at FROM deliveries
  WHERE outcome IN ('sent', 'skipped') GROUP BY ALL
), failed AS (
  SELECT d.*, d.sent_at - lag(d.sent_at) OVER (
      PARTITION BY d.channel, d.alert_id, d.episode ORDER BY d.sent_at) AS waited
  FROM deliveries AS d LEFT JOIN fine AS f ON f.channel = d.channel
    AND f.alert_id IS NOT DISTINCT FROM d.alert_id AND f.episode IS NOT DISTINCT FROM d.episode
  WHERE d.outcome = 'failed' AND d.sent_at > coalesce(f.at, 0)
)
SELECT *, EXISTS (FROM fired AS f WHERE f.rule = $rule AND f.source_id = channel AND since <= f.last) AS fired FROM (
  SELECT channel, min(sent_at) AS since, arg_max(error, sent_at) AS error,
    max(sent_at + greatest($forgotten, 3 * coalesce(waited, 0))) AS forgotten FROM failed GROUP BY channel)
ORDER BY channel
"""


@dataclass(frozen=True, config=STRICT)
class FailingSettings(RuleSettings):
    """Fires when a channel has accepted no notification for `after_s` seconds of the wall clock."""

    after_s: Seconds = 300


def _failing(name: str, settings: FailingSettings, evaluation: Evaluation) -> Iterator[Condition]:
    """Channels that are in use and have failed for longer; they belong to a lake, not to a cluster."""
    now = evaluation.now
    for row in evaluation.ask(_FAILING, rule=name, forgotten=FORGOTTEN_S * SECOND):
        fires = row["since"] if row["fired"] else row["since"] + settings.after_s * SECOND
        if fires < now < row["forgotten"]:
            yield Condition(
                name, "", "failing", row["channel"], row["channel"], row["since"], fires, now, now, True, row
            )


def _sentence(conditions: Sequence[Condition]) -> str:
    channel, facts = conditions[0].item, conditions[0].facts
    return f"notifications to {channel} fail since {words.clock(moment(facts['since']))}: {facts['error']}"


NOTIFY_FAILING = AlertRule(
    "notify_failing",
    FailingSettings(),
    _failing,
    _sentence,
    ("deliveries",),
    About.CHANNEL,
    withdrawn="sent again, or not tried any more",
)
RULES = (NOTIFY_FAILING,)
