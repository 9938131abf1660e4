"""Rules and evidence to alert states: pure, no clock, no files."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any

import pyarrow as pa

from pipelines.alerting.conditions import Condition, asking, not_known_since
from pipelines.alerting.controllers import RULES as CONTROLLERS
from pipelines.alerting.episodes import Episode, episodes
from pipelines.alerting.evidence import SCHEMAS, Evidence, in_microseconds
from pipelines.alerting.lasting import RULES as LASTING
from pipelines.alerting.outbox import latest
from pipelines.alerting.restarts import controlled_restarts
from pipelines.alerting.rule import Evaluation
from pipelines.alerting.rules import RULES, AlertRules
from pipelines.alerting.state import AlertState
from pipelines.lake.queries import microseconds
from pipelines.verdict.records import Wait


def conditions(
    evidence: Evidence,
    rules: AlertRules,
    now: datetime,
    blind: Collection[str] = (),
) -> list[Condition]:
    """Return the conditions of every rule that needs no `blind` evidence; equal evidence gives equal conditions.

    `now` (wall clock, aware) matters to sources and to the job only.
    """
    tables = {name: in_microseconds(table) for name, table in evidence.items()}
    there = {name for name, table in tables.items() if table.num_rows}
    with asking(tables) as ask:
        restarts = controlled_restarts(ask, rules.controlled_restart.limit_s)
        evaluation = Evaluation(ask, restarts, microseconds(now))
        return [
            condition
            for name, settings in rules.settings.items()
            if settings.enabled and not set(RULES[name].needs) & set(blind) and there & {*RULES[name].needs, *_OTHERS}
            for condition in RULES[name].conditions(name, settings, evaluation)
        ]


_OTHERS = ("carried", "blind")
"""Evidence that rules read in addition to what they need."""


def waits(found: Iterable[Condition]) -> list[Wait]:
    """The pending states, one for each rule and cluster; none in a closed recording."""
    together: dict[tuple[str, str], list[Condition]] = {}
    for condition in found:
        if condition.waits and not condition.facts.get("closed"):
            together.setdefault((condition.cluster, condition.rule), []).append(condition)
    return [
        Wait(*key, len({one.item for one in each}), min(one.first for one in each), min(one.fires for one in each))
        for key, each in sorted(together.items())
    ]


def group_conditions(found: Iterable[Condition], rules: AlertRules, stored: Iterable[AlertState] = ()) -> list[Episode]:
    """Group conditions that are not pending by alert; an alert that is `stored` keeps its name."""
    return list(episodes((one for one in found if not one.waits), rules.group_s, latest(stored).values()))


def carried_states(found: Iterable[Episode]) -> list[dict[str, Any]]:
    """Return a row of `carried` for each partition or replica of alerts that are open, or ended with a recording.

    It is the last lasting state of that partition or replica. Times are microseconds.
    """
    rows = {
        (c.rule, *(c.facts[name] for name in _WHO)): {
            "rule": c.rule, "ts": c.facts["first"], "ended": None if c.facts["open"] else c.facts["last"],
            **{name: c.facts[name] for name in (*_WHO, "rank", "missing", "reason", "lasting")},
        }
        for episode in found
        if episode.conditions[0].rule in _LASTING and any(c.facts["open"] for c in episode.conditions)
        for c in sorted(episode.conditions, key=lambda c: c.first)
    }  # fmt: skip
    return list(rows.values())


def told_states(firing: Iterable[AlertState], health: pa.Table) -> pa.Table:
    """Return rows of `carried` for alerts on lasting states, from what these alerts themselves reported."""
    ids = {tuple(row[n] for n in _PLACE): row["topic_id"] for row in health.select([*_PLACE, "topic_id"]).to_pylist()}
    rows = []
    for state in firing:
        missing, cluster = sorted(state.brokers), state.labels["cluster"]
        for item in (state.present if state.rule in _LASTING else ()) or ():
            topic, _, number = item.rpartition("-")
            rows.append({
                "cluster": cluster, "topic": topic, "topic_id": ids.get((cluster, topic, int(number))) or "",
                "partition": int(number), "replica": missing[0] if "sync" in RULES[state.rule].needs else -1,
                "rule": state.rule, "ts": state.first_ts, "rank": -3, "missing": missing,
                "reason": not_known_since(microseconds(state.last_ts)),
            })  # fmt: skip
    return pa.Table.from_pylist(rows, SCHEMAS["carried"])


_PLACE = ("cluster", "topic", "partition")
_LASTING = {rule.name for rule in (*LASTING, *CONTROLLERS)}
_WHO = ("cluster", "topic", "topic_id", "partition", "replica")
