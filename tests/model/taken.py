"""The same history with something of its telemetry gone: a source, a kind of row, or all before some time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

Row = dict[str, Any]


def without(rows: list[Row]) -> Iterator[tuple[str, list[Row]]]:
    """(what is gone, the rows that are left). Of what is gone nobody knows, as what is left is numbered without holes;
    but a row that is lost leaves its number."""
    for source in sorted({row["source_id"] for row in rows}):
        yield f"no {source}", _kept(rows, lambda row, gone=source: row["source_id"] != gone)
    for kind in sorted({_kind(row) for row in rows} - {"controller progress", "broker progress"}):
        yield f"no {kind} row", _kept(rows, lambda row, gone=kind: _kind(row) != gone)
    for place, row in enumerate(rows):
        if row["source_id"].startswith("broker") and row["event_type"] not in ("progress", "config"):
            yield f"row {place} lost", rows[:place] + rows[place + 1 :]
    for ts in sorted({row["ts"] for row in rows if row["event_type"] != "progress"})[1:]:
        yield f"nothing before {ts}", _kept(rows, lambda row, first=ts: row["ts"] >= first)


def _kind(row: Row) -> str:
    return f"{row['source_id'].partition('-')[0]} {row['event_type']}"


def _kept(rows: list[Row], is_kept: Callable[[Row], bool]) -> list[Row]:
    numbers: Counter[Any] = Counter()
    kept = []
    for row in filter(is_kept, rows):
        source, series = row["source_id"], (row["source_id"], row["topic"], row["partition"])
        kept.append(row | {"source_seq": numbers[source], "seq": numbers[series]})
        numbers.update([source, series])
    return kept
