"""Alerts of a lake: read the evidence, apply the rules, write what is new to `ops/alerts`."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pipelines.alerting.alerts import alert_states, group_s
from pipelines.alerting.outbox import continued, latest, news, since, written
from pipelines.alerting.reading import evidence
from pipelines.alerting.rules import AlertRules, load
from pipelines.alerting.state import AlertState, from_arrow, to_arrow
from pipelines.lake.file_systems import StorageOptions
from pipelines.lake.lake import Lake
from pipelines.lake.roles import hold
from schemas import alerts

_log = logging.getLogger("hwmark.alerting")


def evaluate(
    lake: str,
    *,
    rules_file: str | Path | None = None,
    now: datetime | None = None,
    interval_s: float = 0,
    storage_options: StorageOptions | None = None,
    wait_s: float = 30,
) -> list[AlertState]:
    """Every alert that fires, and those that this evaluation resolved; appends the new states to `ops/alerts`.

    `now` is the wall clock (aware), for the freshness of sources and of the job, which takes what is new every
    `interval_s` seconds, or as it says itself. With nothing new it writes nothing.
    Raises UsageError for bad rules, RoleHeld while another process evaluates for longer than `wait_s` seconds.
    """
    rules, place = load(rules_file), Lake(lake, storage_options or {})
    with hold(lake, "alerts", storage_options, wait_s=wait_s) as held:
        found = assess(place, rules, now or datetime.now(UTC), interval_s)
        held.check()
        if found.new:
            place.append(alerts.TABLE, to_arrow(found.new))
    _log.info("%d alerts: %d new states", len(found.present), len(found.new))
    resolved = [state for state in latest(found.new).values() if not state.firing]
    return [state for state in found.present if state.firing] + resolved


@dataclass(frozen=True)
class Assessment:
    """The states that `ops/alerts` has, those that hold now, and the rows that it lacks."""

    stored: list[AlertState]
    present: list[AlertState]
    new: list[AlertState]


def assess(place: Lake, rules: AlertRules, now: datetime, interval_s: float = 0) -> Assessment:
    """The alerts of a lake at `now` of the wall clock (aware), with nothing written."""
    stored = from_arrow(place.read(alerts.TABLE, alerts.ARROW))
    found = evidence(place, rules, since(stored), interval_s)
    present = continued(alert_states(found, rules, now), stored, group_s(rules))
    return Assessment(stored, present, written(news(present, stored), stored, now))
