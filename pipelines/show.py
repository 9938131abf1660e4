"""`hwmark show`: one view of a lake as text."""

from __future__ import annotations

from pipelines import render, sentences
from pipelines.look import VIEWS, Filter, Lake, Row, clusters, findings, newest, rows

_WHERE = "ts cluster topic_partition "

COLUMNS = {
    "hw": _WHERE + "leader_id leader_epoch kind hw reported_hw leader_leo isr holding_replicas agreement",
    "isr": _WHERE + "leader_id partition_epoch change isr_before isr_after cause commit_ms under_min_isr",
    "sync": _WHERE + "replica_id previous_state state in_isr leo leader_leo lag_records lag_ms reason",
    "alerts": "last_ts state severity rule subject first_ts summary",
}
"""What the table of a view shows; JSON and CSV carry every column."""


def show(lake: Lake, view: str, wanted: Filter, limit: int, format: str) -> str:
    """The newest `limit` rows of a view as `table`, `json` or `csv`."""
    if format == "table":
        view = _telling(view, wanted)
    found, matching = rows(lake, view, wanted, limit)
    if format == "json":
        return render.as_json(found)
    if format == "csv":
        return render.as_csv(found, [column.name for column in VIEWS[view].table.columns])
    lines = _words(lake, view, wanted, found)
    if matching > len(found):
        lines.append(f"({matching - len(found)} more; --limit {matching} shows all)")
    return "\n".join(lines)


def _telling(view: str, wanted: Filter) -> str:
    """What a person wants of a view: of a whole lake only what is in trouble."""
    if view == "health" and wanted.topic is None:
        return "trouble"
    return "serious" if view == "regressions" else view


def _words(lake: Lake, view: str, wanted: Filter, found: list[Row]) -> list[str]:
    if VIEWS[view].table is VIEWS["health"].table:
        return sentences.health(clusters(lake, wanted), findings(lake, wanted), found)
    if view == "serious":
        return sentences.regressions(findings(lake, wanted), found)
    return [render.as_table(found, COLUMNS[view].split())] if found else [_nothing(lake, view, wanted)]


def _nothing(lake: Lake, view: str, wanted: Filter) -> str:
    last = newest(lake, view, wanted) if wanted.since else None
    if last is None:
        return f"{lake.path} has no such row in {VIEWS[view].table.path}."
    return f"Nothing since {sentences.clock(wanted.since)}; the newest row is of {sentences.clock(last)}."
