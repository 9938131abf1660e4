"""Rows as aligned text, JSON or CSV."""

from __future__ import annotations

import csv
import io
import json
import textwrap
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from pipelines.commands.progress import terminal_width
from pipelines.printable import printable, spreadsheet_text


def fitted_table(columns: Mapping[str, Sequence[str]], width: int) -> str:
    """Columns of text by their headings in at most `width` columns of a terminal; only the last one is folded."""
    *others, last = columns
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="", collapse_padding=True)
    for name in others:
        table.add_column(Text(name), no_wrap=True, overflow="ellipsis")
    table.add_column(Text(last), overflow="fold")
    for cells in zip(*columns.values(), strict=True):
        table.add_row(*map(Text, cells))
    console = Console(file=io.StringIO(), width=width, color_system=None, legacy_windows=False)
    with console.capture() as captured:
        console.print(table)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


Row = Mapping[str, Any]


LEAST = (
    *(
        "leader_epoch",
        "partition_epoch",
        "witness",
        "commit_ms",
        "previous_state",
        "first_ts",
        "isr_before",
        "leader_leo",
    ),
    *("reported_hw", "in_isr", "leader_id", "reason", "lag_ms", "subject", "cluster"),
)
"""What a table goes without on a narrow terminal, the first before the others."""
FOLDED = ("summary", "text")
"""Sentences, which go on below themselves; of anything else a row is one line."""
APART = 2
NARROWEST = 24
"""Columns of the terminal between two columns of a table, and the fewest of a sentence."""


def as_table(rows: Sequence[Row], columns: Sequence[str]) -> str:
    """Aligned columns under a heading; unknown is blank, arrays are `1,2`, times UTC with milliseconds.

    On a terminal that is too narrow for all columns those that say the same in every row stand once below the table,
    and what still does not fit is left out, and named.
    """
    table = {column: [_cell(row, column) for row in rows] for column in columns}
    width = terminal_width()
    if width is None or _width(table) <= width:
        return _aligned(table)

    kept, below = _without(table, width)
    return "\n".join([fitted_table({heading(c): cells for c, cells in kept.items()}, width), *below])


Cells = dict[str, list[str]]


def _aligned(table: Cells) -> str:
    lines = zip(*([heading(column), *cells] for column, cells in table.items()), strict=True)
    widths = [_wide(column, cells) for column, cells in table.items()]
    return "\n".join((" " * APART).join(map(str.ljust, line, widths)).rstrip() for line in lines)


def _wide(column: str, cells: Sequence[str]) -> int:
    return max(map(len, [heading(column), *cells]))


def _width(table: Cells, *, folded: bool = False) -> int:
    """The width of a table, or its least width with folded sentences."""
    widths = [
        min(NARROWEST, wide) if folded and column in FOLDED else wide
        for column, cells in table.items()
        if (wide := _wide(column, cells))
    ]
    return sum(widths) + APART * (len(widths) - 1)


def _without(table: Cells, width: int) -> tuple[Cells, list[str]]:
    """The columns that fit, and lines about those that do not."""
    kept, same, left_out = dict(table), [], []
    for column in reversed(table):
        if _width(kept, folded=True) > width and column not in FOLDED and len(set(table[column])) == 1:
            same.append(f"{heading(column)} {kept.pop(column)[0] or 'unknown'}")
    for column in (*LEAST, *list(reversed(table))[:-1]):  # the first is what a row is about
        if _width(kept, folded=True) > width and column in kept and column not in FOLDED:
            del kept[column]
            left_out.append(heading(column))
    below = [f"(the same in all rows: {', '.join(reversed(same))})"] if same else []
    if left_out:
        below.append(f"(too narrow for {', '.join(left_out)}: --format json has all)")
    return kept, [line for words in below for line in textwrap.wrap(words, width)]


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
    if isinstance(value, str):
        return spreadsheet_text(value)
    return value


def _plain(value: Any) -> Any:
    return value.isoformat(timespec="microseconds") if isinstance(value, datetime) else value
