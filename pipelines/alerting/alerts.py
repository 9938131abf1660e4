"""Rules and evidence to alert states: pure, no clock, no files."""

from __future__ import annotations

from datetime import datetime

from pipelines.alerting.conditions import asking, microseconds
from pipelines.alerting.episodes import states
from pipelines.alerting.evidence import Evidence
from pipelines.alerting.restarts import controlled_restarts
from pipelines.alerting.rule import Evaluation
from pipelines.alerting.rules import RULES, AlertRules
from pipelines.alerting.state import AlertState


def alert_states(evidence: Evidence, rules: AlertRules, now: datetime) -> list[AlertState]:
    """The last state of every episode in the evidence: the same for the same evidence, `now` (wall clock, aware)
    matters to sources and to the job only."""
    with asking(evidence.in_microseconds()) as ask:
        restarts = controlled_restarts(ask, rules.controlled_restart.limit_s)
        evaluation = Evaluation(ask, restarts, rules.history.forget_s, microseconds(now))
        found = [
            condition
            for name, settings in rules.settings.items()
            if settings.enabled
            for condition in RULES[name].conditions(name, settings, evaluation)
        ]
    return states(found, {name: one.severity for name, one in rules.settings.items()}, group_s(rules))


def group_s(rules: AlertRules) -> dict[str, int]:
    """How many seconds apart what a rule finds in one cluster may begin and be one incident; 0: it never is."""
    return {name: getattr(settings, "group_s", 0) for name, settings in rules.settings.items()}
