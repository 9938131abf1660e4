"""The controllers of a cluster, as a watcher was told of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from pipelines.alerting.conditions import SECOND, Condition, ended_recording
from pipelines.alerting.rule import About, AlertRule, Evaluation, LastingSettings
from pipelines.lake.queries import moment, text
from pipelines.verdict.controllers import sentence
from schemas.event_types import NO_CONTROLLER, NONE_TO_SPARE, NOT_LOOKED_AT, missing_voters

# The watcher counts that was told something else last; one that may not look says nothing.
_TOLD = """
SELECT cluster, quorum, quorum_since AS since, max(ts) OVER (PARTITION BY cluster) AS clock,
  cluster IN (FROM ended_recordings) AS over
FROM brokers WHERE quorum_since IS NOT NULL AND NOT starts_with(quorum, {not_looked_at})
QUALIFY row_number() OVER (PARTITION BY cluster ORDER BY quorum_since DESC, quorum DESC) = 1 AND {is_so}
ORDER BY cluster
"""


def _conditions(is_so: str) -> Callable[[str, LastingSettings, Evaluation], Iterator[Condition]]:
    def conditions(name: str, settings: LastingSettings, evaluation: Evaluation) -> Iterator[Condition]:
        for row in evaluation.ask(_TOLD.format(is_so=is_so, not_looked_at=text(NOT_LOOKED_AT))):
            cluster, since, clock = row["cluster"], row["since"], row["clock"]
            if (fires := since + settings.for_s * SECOND) <= clock:
                facts = row | {"missing": missing_voters(row["quorum"])}
                yield Condition(
                    name, cluster, "controllers", cluster, "controllers", since, fires, clock, clock, not row["over"],
                    facts,
                )  # fmt: skip

    return conditions


def _sentence(conditions: Sequence[Condition]) -> str:
    facts = conditions[0].facts
    return f"{ended_recording(conditions)}{sentence(facts['quorum'], moment(facts['since']))}"


RULES = (
    AlertRule(
        "no_controller",
        LastingSettings(severity="critical", for_s=30),
        _conditions(f"starts_with(quorum, {text(NO_CONTROLLER)})"),
        _sentence,
        ("brokers",),
        About.CLUSTER,
        withdrawn="a controller is reached again",
    ),
    AlertRule(
        "quorum_no_spare",
        LastingSettings(for_s=60),
        _conditions(f"ends_with(quorum, {text(NONE_TO_SPARE)})"),
        _sentence,
        ("brokers",),
        About.CLUSTER,
        withdrawn="the controllers have one to spare again, or none is reached",
    ),
)
