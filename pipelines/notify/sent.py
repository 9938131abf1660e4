"""The deliveries of one alert: its rows of `ops/deliveries`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipelines.lake.lake import Lake
from pipelines.lake.queries import Row, query, text
from schemas import deliveries

LINES = 50
"""At most so many deliveries of an alert are shown, the newest."""


@dataclass(frozen=True)
class Sent:
    """Deliveries in order of time; `left_out` older ones are not here. `notified`: whether any was ever recorded."""

    rows: Sequence[Row]
    left_out: int
    notified: bool


def sent(lake: Lake, alert_id: str) -> Sent:
    """The deliveries that `hwmark notify` recorded for an alert, in all its episodes."""
    table = lake.find(deliveries.TABLE)
    if table is None:
        return Sent((), 0, notified=False)
    own = f"SELECT *, count(*) OVER () AS matching FROM t WHERE alert_id = {text(alert_id)}"
    found = query(table, f"{own} ORDER BY sent_at DESC, attempt DESC LIMIT {LINES}")
    left_out = found[0]["matching"] - len(found) if found else 0
    return Sent([{k: v for k, v in row.items() if k != "matching"} for row in reversed(found)], left_out, notified=True)
