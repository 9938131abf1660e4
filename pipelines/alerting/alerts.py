"""Rules and evidence to alert states: pure, no clock, no files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

import pyarrow as pa

from pipelines.alerting.conditions import Condition, asking, microseconds
from pipelines.alerting.episodes import states
from pipelines.alerting.evidence import CARRIED, Evidence
from pipelines.alerting.lasting import RULES as LASTING
from pipelines.alerting.restarts import controlled_restarts
from pipelines.alerting.rule import Evaluation
from pipelines.alerting.rules import RULES, AlertRules
from pipelines.alerting.state import AlertState


def alert_states(
    evidence: Evidence, rules: AlertRules, now: datetime, stored: Iterable[AlertState] = ()
) -> list[AlertState]:
    """The last state of every episode in the evidence, beside those that are `stored`: see `conditions`."""
    told = list(stored)
    return grouped(conditions(evidence, rules, now, told), rules, told)


def conditions(
    evidence: Evidence,
    rules: AlertRules,
    now: datetime,
    stored: Iterable[AlertState] = (),
    blind: Collection[str] = (),
) -> list[Condition]:
    """Conditions of every rule, but for those that need evidence which is `blind`: the same for the same evidence.

    `now` (wall clock, aware) matters to sources and to the job only, `stored` to which incident a loss is of.
    """
    told: dict[tuple[str, str], set[tuple[int, str]]] = {}
    for state in stored:
        place = state.rule, state.labels.get("cluster", "")
        told.setdefault(place, set()).add((microseconds(state.first_ts), state.subject))
    with asking(evidence.in_microseconds()) as ask:
        restarts = controlled_restarts(ask, rules.controlled_restart.limit_s)
        in_order = {place: sorted(episodes) for place, episodes in told.items()}
        evaluation = Evaluation(ask, restarts, microseconds(now), in_order)
        return [
            condition
            for name, settings in rules.settings.items()
            if settings.enabled and not set(RULES[name].needs) & set(blind)
            for condition in RULES[name].conditions(name, settings, evaluation)
        ]


def grouped(found: Iterable[Condition], rules: AlertRules, stored: Iterable[AlertState] = ()) -> list[AlertState]:
    """The alerts that conditions are of; an episode that is `stored` is never part of another."""
    known = {(state.alert_id, microseconds(state.first_ts)) for state in stored}
    return states(found, {name: one.severity for name, one in rules.settings.items()}, group_s(rules), known)


def group_s(rules: AlertRules) -> dict[str, int]:
    """How many seconds apart what a rule finds in one cluster may begin and be one incident; 0: it never is."""
    return {name: getattr(settings, "group_s", 0) for name, settings in rules.settings.items()}


def carried(found: Iterable[Condition]) -> pa.Table:
    """CARRIED: the lasting states that are open, or would be if their recording went on."""
    lasting = {rule.name for rule in LASTING}
    rows = [_carried(c.rule, c.facts) for c in found if c.rule in lasting and c.facts["open"]]
    return pa.Table.from_pylist(rows, schema=CARRIED)


def _carried(rule: str, facts: Mapping[str, object]) -> dict[str, object]:
    columns = ("cluster", "topic", "topic_id", "partition", "replica", "rank", "missing", "reason")
    return {"rule": rule, "ts": facts["first"], **{name: facts[name] for name in columns}}
