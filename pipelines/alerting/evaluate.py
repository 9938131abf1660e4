"""Alerts of a lake: read the evidence, apply the rules, write what is new to `ops/alerts`."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from pathlib import Path

from pipelines.alerting.alerts import alert_states, group_s
from pipelines.alerting.outbox import continued, latest, news, since
from pipelines.alerting.reading import evidence
from pipelines.alerting.rules import load
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
) -> list[AlertState]:
    """Every alert that fires, and those that this evaluation resolved; appends the new states to `ops/alerts`.

    `now` is the wall clock (aware), for the freshness of sources and of the job, which takes what is new every
    `interval_s` seconds, or as it says itself. With nothing new it writes nothing.
    Raises UsageError for bad rules, RoleHeld while another process checks the lake.
    """
    rules, place = load(rules_file), Lake(lake, storage_options or {})
    with hold(lake, "check", storage_options) as held:
        stored = from_arrow(place.read(alerts.TABLE, alerts.ARROW))
        found = evidence(place, rules, since(stored), interval_s)
        present = continued(alert_states(found, rules, now or datetime.now(UTC)), stored, group_s(rules))
        rows = news(present, stored)
        held.check()
        if rows:
            place.append(alerts.TABLE, to_arrow(rows))
    _log.info("%d alerts: %d new states", len(present), len(rows))
    resolved = [state for state in latest(rows).values() if not state.firing]
    return [state for state in present if state.firing] + resolved
