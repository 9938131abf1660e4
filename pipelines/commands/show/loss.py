"""`hwmark show loss`: how one loss came about, from the rows of silver around it."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.lake.lake import Lake
from pipelines.lake.queries import Filter, Row
from pipelines.verdict.loss_rows import IDS, incident

COLUMNS = ("cluster", "topic", "partition", "regression_id", "step", "ts", "text")
"""A step as data."""


def lines(lake: Lake, wanted: Filter, loss_id: str | None) -> Iterator[str]:
    """The chain of the loss that is asked for, a step a line, and how many others there are."""
    found = incident(lake, wanted, loss_id)
    if found is None:
        yield "No loss is known there."
        return
    yield f"{found.place}, loss {found.loss['regression_id']}:"
    for step in found.steps:
        yield f"  {step.when:23}  {step.name}: {step.text}"
    if found.others:
        more = "1 more loss" if found.others == 1 else f"{found.others:,} more losses"
        yield f"({more}: --topic and --partition, or --id with a regression_id of {IDS}, name one)"


def data(lake: Lake, wanted: Filter, loss_id: str | None) -> list[Row]:
    """The steps as rows of COLUMNS; none where no loss is known."""
    found = incident(lake, wanted, loss_id)
    if found is None:
        return []
    place = {name: found.loss[name] for name in COLUMNS[:4]}
    return [place | {"step": step.name, "ts": step.ts, "text": step.text} for step in found.steps]
