"""Rules and evidence to alert states: pure, no clock, no files."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from pipelines.alerting.behind import job_behind
from pipelines.alerting.conditions import Ask, Condition, asking, microseconds
from pipelines.alerting.episodes import states
from pipelines.alerting.evidence import Evidence
from pipelines.alerting.happenings import disagreements, gaps, losses
from pipelines.alerting.lasting import MARKS, lasting
from pipelines.alerting.restarts import Restarts, controlled_restarts
from pipelines.alerting.rules import AlertRules
from pipelines.alerting.silence import silent_sources
from pipelines.alerting.state import AlertState

RULES = ("loss", "unproven_loss", "loss_not_excluded", *MARKS, "disagreement", "gap", "stale_source", "job_behind")
SEVERITY_OF_FALLS = {"loss": "critical", "unproven_loss": "warning", "loss_not_excluded": "info"}


def alert_states(evidence: Evidence, rules: AlertRules, now: datetime) -> list[AlertState]:
    """The last state of every episode in the evidence: the same for the same evidence, `now` (wall clock, aware)
    matters to sources and to the job only."""
    enabled = [name for name in RULES if getattr(rules, name).enabled]
    with asking(evidence.in_microseconds()) as ask:
        restarts = controlled_restarts(ask, rules.controlled_restart.limit_s)
        found = [c for name in enabled for c in _conditions(name, rules, ask, restarts, microseconds(now))]
    return states(found, {name: getattr(rules, name).severity for name in RULES}, group_s(rules))


def group_s(rules: AlertRules) -> dict[str, int]:
    """How many seconds apart what a rule finds in one cluster may begin and be one incident; 0: it never is."""
    return {name: getattr(getattr(rules, name), "group_s", 0) for name in RULES}


def _conditions(name: str, rules: AlertRules, ask: Ask, restarts: Restarts, wall: int) -> Iterator[Condition]:
    if name in MARKS:
        return lasting(name, getattr(rules, name).for_s, rules.history.forget_s, ask, restarts)
    if name in SEVERITY_OF_FALLS:
        return losses(name, getattr(rules, name), SEVERITY_OF_FALLS[name], ask)
    if name == "disagreement":
        return disagreements(name, rules.disagreement, ask)
    if name == "gap":
        return gaps(name, rules.gap, ask)
    if name == "job_behind":
        return job_behind(name, ask, wall)
    return silent_sources(name, rules.stale_source.stale_after_s, ask, restarts, wall)
