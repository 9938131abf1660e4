"""`hwmark show timeline`: what happened, what was told, and what people said, in order of time."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.commands.show import tables
from pipelines.lake.lake import Lake
from pipelines.lake.queries import Filter, Row
from pipelines.timeline.happenings import timeline

COLUMNS = ("ts", "until", "cluster", "kind", "severity", "broker_id", "topic", "partitions", "summary", "incident_id")


def table(lake: Lake, wanted: Filter, limit: int, broker: int | None) -> Iterator[str]:
    """The newest lines, the last one newest, and how many are left out."""
    found = timeline(lake, wanted, limit, broker=broker, newest=True)
    if not found.lines:
        yield "Nothing is recorded of this period; the verdict above says what of it was read."
        return
    rows = [
        {"ts": line.ts, "cluster": line.cluster, "kind": line.kind, "severity": line.weight, "summary": line.summary}
        for line in found.lines
    ]
    yield tables.as_table(rows, tuple(rows[0]))
    if found.left_out:
        yield f"({found.left_out} older; --limit {found.left_out + len(found.lines)} or a shorter --since shows them)"


def data(lake: Lake, wanted: Filter, limit: int, broker: int | None) -> list[Row]:
    """The same as rows of COLUMNS."""
    return [
        {"severity": line.weight} | {name: getattr(line, name) for name in COLUMNS if name != "severity"}
        for line in timeline(lake, wanted, limit, broker=broker, newest=True).lines
    ]
