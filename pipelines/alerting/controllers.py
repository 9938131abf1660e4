"""The controllers of a cluster, as brokers reported them to watchers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from pipelines.alerting.conditions import SECOND, Condition, ended_recording
from pipelines.alerting.lasting import SPELLS, least_of
from pipelines.alerting.rule import About, AlertRule, Evaluation, LastingSettings
from pipelines.alerting.state import NOT_KNOWN
from pipelines.lake.queries import moment, text
from pipelines.verdict import words
from pipelines.verdict.controllers import sentence
from schemas.event_types import NO_CONTROLLER, NONE_TO_SPARE, NOT_LOOKED_AT, NOT_REACHED, QUORUM, missing_voters

# A watcher that may not look says nothing, neither that it is so nor that it is over; what was told last of a stretch
# says who is missing.
_TOLD = f"""
WITH told AS (
  SELECT cluster, ts, detail, regexp_matches(detail, {text(f"^({NOT_LOOKED_AT}|{NOT_REACHED})")}) AS unseen FROM (
    SELECT cluster, ts, detail FROM broker_states WHERE starts_with(detail, {text(QUORUM)})
    UNION SELECT cluster, quorum_since, quorum FROM brokers WHERE quorum_since IS NOT NULL)
)"""
_STRETCHES = """, seen AS (
  SELECT *, {is_so} AS wrong,
    count(*) FILTER (NOT {is_so}) OVER (PARTITION BY cluster ORDER BY ts, detail ROWS UNBOUNDED PRECEDING) AS stretch
  FROM told WHERE NOT unseen
), marks AS (
  SELECT {{'cluster': cluster, 'topic': '', 'topic_id': '', 'partition': -1, 'replica': -1}} AS who, ts,
    max(ts) OVER same AS rank, wrong, NULL::INT[] AS missing, arg_max(detail, ts) OVER same AS reason
  FROM seen WINDOW same AS (PARTITION BY cluster, stretch, wrong)
)"""
_UNSEEN = f"""{_TOLD}
SELECT cluster, min(ts) AS since, arg_min(detail, ts) AS why FROM told AS t
WHERE unseen AND NOT EXISTS (FROM told AS s WHERE s.cluster = t.cluster AND NOT s.unseen AND s.ts >= t.ts) GROUP BY ALL
"""


def _conditions(is_so: str) -> Callable[[str, LastingSettings, Evaluation], Iterator[Condition]]:
    def conditions(name: str, settings: LastingSettings, evaluation: Evaluation) -> Iterator[Condition]:
        lasting, spells = settings.for_s * SECOND, _TOLD + _STRETCHES.format(is_so=is_so) + SPELLS
        unseen = {row["cluster"]: row for row in evaluation.ask(_UNSEEN)}
        for row in evaluation.ask(spells, lasting=lasting, rule=name):
            cluster, first, last, open_ = row["cluster"], row["first"], row["last"], row["open"] and not row["over"]
            if row.pop("told") or first + lasting <= last:
                facts = row | {
                    "lasting": least_of(lasting, row["lasting"]),
                    "missing": missing_voters(row["reason"]),
                    "unseen": unseen.get(cluster) if open_ else None,
                }
                fires = min(first + lasting, last)
                yield Condition(
                    name, cluster, "controllers", cluster, "controllers", first, fires, last, last, open_, facts
                )

    return conditions


def _sentence(conditions: Sequence[Condition]) -> str:
    facts = conditions[-1].facts
    said = f"{ended_recording(conditions)}{sentence(facts['reason'], moment(facts['first']))}"
    if not facts["unseen"]:
        return said
    return f"{said}; {NOT_KNOWN} {words.clock(moment(facts['unseen']['since']))}: {facts['unseen']['why']}"


RULES = (
    AlertRule(
        "no_controller",
        LastingSettings(severity="critical", for_s=0),  # a watcher tells it after 40 s
        _conditions(f"starts_with(detail, {text(NO_CONTROLLER)})"),
        _sentence,
        ("brokers", "broker_states"),
        About.CLUSTER,
    ),
    AlertRule(
        "quorum_no_spare",
        LastingSettings(for_s=60),
        _conditions(f"ends_with(detail, {text(NONE_TO_SPARE)})"),
        _sentence,
        ("brokers", "broker_states"),
        About.CLUSTER,
    ),
)
