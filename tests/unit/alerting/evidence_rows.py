"""Rows for the alert rules, times in seconds after NOON."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa

from pipelines.alerting.alerts import conditions, group_conditions
from pipelines.alerting.episodes import states as states_of
from pipelines.alerting.evidence import SCHEMAS, evidence_of
from pipelines.alerting.rules import AlertRules

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
_TIMES = ("ts", "last_event_ts", "reported_to", "clock", "oldest", "sent_at", "episode")
_PARTITION = {"topic": "orders", "topic_id": "T" * 22, "partition": 0}


def at(seconds):
    return NOON + timedelta(seconds=seconds)


def evidence(clock=0, **tables):
    """Evidence of cluster `c` whose present is `clock`; times in rows are seconds, what is left out is orders-0."""
    return evidence_of(
        clock=rows("clock", {"clock": clock}), **{name: rows(name, *given) for name, given in tables.items()}
    )


def rows(name, *given):
    schema = SCHEMAS[name]
    defaults = {"cluster": "c", **{k: v for k, v in _PARTITION.items() if k in schema.names}}
    return pa.Table.from_pylist([_timed({**defaults, **row}) for row in given], schema=schema)


def _timed(row):
    return {k: at(v) if k in _TIMES and v is not None else v for k, v in row.items()}


def alert_states(found, rules, now, stored=()):
    """The last state of every episode in the evidence."""
    return states_of(group_conditions(conditions(found, rules, now), rules, stored), rules.severities)


def states(found, rules=None, now=0):
    """(rule, state, subject, first, last) of every alert, times in seconds after NOON."""
    return [
        (s.rule, s.state, s.subject, (s.first_ts - NOON).total_seconds(), (s.last_ts - NOON).total_seconds())
        for s in alert_states(found, rules or AlertRules(), at(now))
    ]
