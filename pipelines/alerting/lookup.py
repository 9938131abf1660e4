"""One alert of a lake by its id."""

from __future__ import annotations

from pipelines.errors import nearest
from pipelines.lake.lake import Lake
from pipelines.lake.queries import VIEWS, Filter, Row, query
from pipelines.verdict.known import UnknownNameError
from schemas import alerts


def alert(lake: Lake, alert_id: str) -> Row:
    """Its latest state, a row of `ops/alerts`. Raises UnknownNameError naming the nearest."""
    table = lake.find(alerts.TABLE)
    found = query(table, VIEWS["alerts"].select(Filter())) if table else []
    row = next((row for row in found if row["alert_id"] == alert_id), None)
    if row is None:
        raise UnknownNameError(f"{lake.root} knows no alert {alert_id}; {nearest(alert_id, _ids(found))}")
    return row


def _ids(found: list[Row]) -> set[str]:
    return {row["alert_id"] for row in found}
