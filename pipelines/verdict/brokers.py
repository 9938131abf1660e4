"""Brokers and racks as people ask for them: rows of `gold/brokers` with an estimate, and added up by rack."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pipelines.verdict.catch_up import SHOWS_LEOS, CatchUp, catch_up

Row = dict[str, Any]
SUMS = (
    "replicas", "led", "followed", "outside_isr", "out_of_sync", "holds_back", "holds_back_records",
    "led_under_min_isr", "led_held_back", "sole_isr", "at_min_isr",
)  # fmt: skip
ESTIMATE = ("catch_up", "catch_up_s", "catch_up_s_least", "catch_up_s_most", "lag_per_s", "lag_per_s_spread")
"""The columns that an estimate adds to a row."""


def estimated(row: Row, points: Sequence[Row], time: str = "ts") -> Row:
    """The row with ESTIMATE from the rows of the last minute of its lag; `time`: the column with the time of each."""
    known = [(point[time], point["lag_records"]) for point in points if point["lag_records"] is not None]
    complete = bool(points) and len(known) == len(points)
    unclear = [point["level"] for point in points if point["level"] not in SHOWS_LEOS]
    level = unclear[0] if unclear else SHOWS_LEOS[0]
    found = catch_up(known if complete else [], level)
    return row | dict(zip(ESTIMATE, _columns(found), strict=True))


def _columns(found: CatchUp) -> tuple[object, ...]:
    return str(found), found.seconds, found.least, found.most, found.slope, found.spread


def racks(brokers: Iterable[Row]) -> list[Row]:
    """One row per cluster and rack: its brokers, their counts added up, and those in a controlled restart.

    A partition that two brokers of one rack hold back counts twice. A sum is unknown where that of no broker is known;
    `rack` is None of the brokers whose rack is not known.
    """
    together: dict[tuple[str, str | None], list[Row]] = {}
    for row in brokers:
        together.setdefault((row["cluster"], row["rack"]), []).append(row)
    ordered = sorted(together.items(), key=lambda item: (item[0][0], item[0][1] is None, item[0][1] or ""))
    return [_rack(cluster, rack, rows) for (cluster, rack), rows in ordered]


def _rack(cluster: str, rack: str | None, rows: Sequence[Row]) -> Row:
    sums = {name: _sum(row[name] for row in rows) for name in SUMS}
    restarting = [row["broker_id"] for row in rows if row["restarting_since"] is not None]
    reported = [row["last_reported_ts"] for row in rows if row["last_reported_ts"] is not None]
    return {
        "cluster": cluster,
        "rack": rack,
        "brokers": [row["broker_id"] for row in rows],
        "restarting": restarting,
        **sums,
        "holds_back_of": _added(row["holds_back_of"] or () for row in rows),
        "last_reported_ts": min(reported) if len(reported) == len(rows) else None,
    }


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _added(maps: Iterable[Mapping[str, int] | Iterable[tuple[str, int]]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for one in maps:
        for leader, count in dict(one).items():
            total[leader] = total.get(leader, 0) + count
    return dict(sorted(total.items()))
