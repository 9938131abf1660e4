"""One alert of a lake by its id."""

from __future__ import annotations

from pipelines.alerting.state import AlertState, from_arrow
from pipelines.errors import nearest
from pipelines.lake.lake import Lake
from pipelines.lake.queries import VIEWS, Filter, Row, query
from pipelines.verdict.known import UnknownNameError
from schemas import alerts


def read_states(lake: Lake) -> list[AlertState]:
    """The states that `ops/alerts` holds, in no order."""
    return from_arrow(lake.read(alerts.TABLE, alerts.ARROW))


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
