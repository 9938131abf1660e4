"""Lines of alerts, people, pipelines and the gate, which are joined to a timeline when it is read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pipelines.lake.lake import Lake
from pipelines.lake.queries import VIEWS, Filter, Row, View, select_rows
from pipelines.timeline.line import Happening
from pipelines.verdict import words
from schemas import downtimes, notes
from schemas.notes import GATE

_NOTES = View(notes.TABLE, "written_at", "")
_WINDOWS = View(downtimes.TABLE, "begins", "", "PARTITION BY downtime_id ORDER BY written_at DESC")


def said(lake: Lake, wanted: Filter, broker: int | None) -> Iterator[Happening]:
    """Lines of ops tables; about one broker those that name it, or no broker at all."""
    wide = replace(wanted, topic=None, partition=None)
    for line in (*_alerts(lake, wanted, broker), *map(_note, _rows(lake, _NOTES, wide)), *_windows(lake, wide, broker)):
        if broker is None or line.broker_id in (None, broker):
            yield line


def _rows(lake: Lake, view: View, wanted: Filter) -> list[Row]:
    return select_rows(lake, view.table, view.select(wanted))


def _alerts(lake: Lake, wanted: Filter, broker: int | None) -> Iterator[Happening]:
    """When alerts began; their labels name partitions, so an alert counts as one line."""
    found = _rows(lake, VIEWS["alerts"], wanted)
    of = {a: row["incident_id"] for row in _rows(lake, VIEWS["incidents"], Filter()) for a in row["alert_ids"]}
    for row in found:
        labels = dict(row["labels"] or ())
        named = [int(one) for one in labels.get("brokers", "").split(", ") if one.isdigit()]
        if broker is None or not named or broker in named:
            text = f"alert {row['rule']} ({row['alert_id']}), now {row['state']}: {row['summary']}"
            ended = None if row["state"] == "firing" else row["last_ts"]
            about, incident_id = named[0] if len(named) == 1 else None, of.get(row["alert_id"])
            yield Happening(
                row["first_ts"], labels.get("cluster", ""), "alert", row["severity"], text, until=ended,
                broker_id=about, incident_id=incident_id,
            )  # fmt: skip


def _note(row: Row) -> Happening:
    by = f" ({row['author']})" if row["author"] else ""
    kind, text = ("gate", row["text"].removeprefix(GATE)) if row["text"].startswith(GATE) else ("note", row["text"])
    said = f"handled: {text}" if row["handled"] else text
    return Happening(row["written_at"], row["cluster"], kind, "info", said + by, incident_id=row["incident_id"])


def _windows(lake: Lake, wanted: Filter, broker: int | None) -> Iterator[Happening]:
    for row in _rows(lake, _WINDOWS, wanted):
        named = row["brokers"]
        if broker is None or named is None or broker in named:
            who = "all brokers" if named is None else words.brokers(named)
            text = f"{who} may be away until {words.clock(row['until'])}: {row['reason']}"
            about = named[0] if named and len(named) == 1 else None
            yield Happening(
                row["begins"], row["cluster"], "downtime", "info", text, until=row["until"], broker_id=about
            )
