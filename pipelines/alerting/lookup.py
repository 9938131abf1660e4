"""Alerts and incidents as a lake holds them, and one alert by its id."""

from __future__ import annotations

from datetime import datetime

from pipelines.alerting import downtime
from pipelines.alerting.incidents import Incident, incidents, new_rows
from pipelines.alerting.state import AlertState, from_arrow
from pipelines.errors import nearest
from pipelines.lake.lake import Lake
from pipelines.lake.queries import VIEWS, Filter, Row, query
from pipelines.verdict.known import UnknownNameError
from schemas import alerts, downtimes
from schemas import incidents as incidents_table


def read_states(lake: Lake) -> list[AlertState]:
    """The states that `ops/alerts` holds, in no order."""
    return from_arrow(lake.read(alerts.TABLE, alerts.ARROW))


def read_downtimes(lake: Lake) -> list[downtime.Downtime]:
    """The windows that `ops/downtimes` holds, each as it was written last, in order of their beginning."""
    return downtime.from_arrow(lake.read(downtimes.TABLE, downtimes.ARROW))


def untold_incidents(lake: Lake, states: list[AlertState], now: datetime) -> list[Incident]:
    """The states of incidents that `ops/incidents` lacks at `now` of the wall clock; `states`: all of its alerts."""
    stored = lake.read(incidents_table.TABLE, incidents_table.ARROW.empty_table().select(["written_at"]).schema)
    return new_rows(incidents(states, read_downtimes(lake), now), stored)


def alert(lake: Lake, alert_id: str) -> Row:
    """Its latest state, a row of `ops/alerts`, of the time that it fires or fired last.

    Raises UnknownNameError naming the nearest.
    """
    table = lake.find(alerts.TABLE)
    view = VIEWS["alerts"]
    found = query(table, f"{view.select(Filter())} ORDER BY {view.first}") if table else []
    row = next((row for row in found if row["alert_id"] == alert_id), None)
    if row is None:
        raise UnknownNameError(f"{lake.root} knows no alert {alert_id}; {nearest(alert_id, _ids(found))}")
    return row


def _ids(found: list[Row]) -> set[str]:
    return {row["alert_id"] for row in found}
