"""Rows as aligned text, JSON or CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pipelines.printable import printable

Row = Mapping[str, Any]


def as_table(rows: Sequence[Row], columns: Sequence[str]) -> str:
    """Aligned columns under a heading; unknown is blank, arrays are `1,2`, times UTC with milliseconds."""
    cells = [[heading(c) for c in columns], *([_cell(row, c) for c in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in cells)


def as_json(rows: Sequence[Row]) -> str:
    """One JSON array, a row a line; times are ISO 8601."""
    text = ",\n ".join(json.dumps(row, default=_plain) for row in rows)
    return "[" + text.replace("\x7f", "\\u007f") + "]"


def as_csv(rows: Sequence[Row], columns: Sequence[str]) -> str:
    """CSV with a heading; arrays and maps are JSON, unknown is empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_field(row[c]) for c in columns])
    return out.getvalue().rstrip("\n")


def heading(column: str) -> str:
    return {"holding_replicas": "held by", "topic_partition": "partition"}.get(column, column.replace("_", " "))


def _cell(row: Row, column: str) -> str:
    value = _value(row, column)
    if value is None:
        return ""
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}.{value.microsecond // 1000:03}"
    if isinstance(value, list):
        return ",".join(map(str, value))
    return printable(str(value))


def _value(row: Row, column: str) -> Any:
    if column == "topic_partition":
        return f"{row['topic']}-{row['partition']}"
    if column == "cluster" and "labels" in row:  # an alert says in its labels what it is about
        return dict(row["labels"] or ()).get("cluster")
    return row[column]


def _field(value: Any) -> Any:
    if isinstance(value, datetime):
        return _plain(value)
    if isinstance(value, list | dict):
        return json.dumps(_plain(value))
    return printable(value) if isinstance(value, str) else value


def _plain(value: Any) -> Any:
    return value.isoformat(timespec="microseconds") if isinstance(value, datetime) else value
