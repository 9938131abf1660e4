"""`hwmark show loss`: how one loss came about, from the rows of silver around it."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.alerting.owners import Owners, owners_of
from pipelines.commands.show import tables
from pipelines.lake.lake import Lake
from pipelines.lake.queries import Filter, Row
from pipelines.verdict.incident import lost_step, written
from pipelines.verdict.loss_rows import IDS, LostRange, incident

COLUMNS = ("cluster", "topic", "partition", "regression_id", "step", "ts", "text")
"""A step as data."""


def lines(lake: Lake, wanted: Filter, loss_id: str | None, limit: int, owners: Owners) -> Iterator[str]:
    """The chain of the loss that is asked for, a step a line, what was lost with it, and how many others there are."""
    found = incident(lake, wanted, loss_id)
    if found is None:
        yield "No loss is known there."
        return
    yield f"{found.place}, loss {found.loss['regression_id']}:"
    for step in found.steps:
        yield f"  {step.when:23}  {step.name}: {step.text}"
    if owner := _owner(found.loss, owners):
        yield f"  owner: {owner}"
    if found.lost_together:
        yield found.lost_together
        columns = (*RANGE, "owner") if owners else RANGE
        shown = [_range(one) | {"owner": _owner(one.loss, owners)} for one in found.together[:limit]]
        yield from tables.as_table(shown, columns).splitlines()
        if (left := len(found.together) - limit) > 0:
            yield f"({left} more; --limit {len(found.together)} shows all)"
    if found.others:
        more = "1 more loss" if found.others == 1 else f"{found.others:,} more losses"
        yield f"({more}: --topic and --partition, or --id with a regression_id of {IDS}, name one)"


RANGE = ("ts", "topic_partition", "lost", "offsets", "committed_from", "committed_to", "id")


def _owner(loss: Row, owners: Owners) -> str:
    """The owner of the topic of a loss, empty where nobody is named."""
    return ", ".join(map(str, owners_of([loss["topic"]], owners)))


def _range(one: LostRange) -> Row:
    loss = one.loss
    known = loss["lost_from"] is not None and loss["lost_to"] is not None
    return {
        "ts": loss["ts"], "topic": loss["topic"], "partition": loss["partition"], "id": loss["regression_id"],
        "lost": f"{loss['lost_from']}..{loss['lost_to'] - 1}" if known else "not known",
        "offsets": loss["lost_records"], "committed_from": one.since, "committed_to": one.until,
    }  # fmt: skip


def data(lake: Lake, wanted: Filter, loss_id: str | None) -> list[Row]:
    """The steps as rows of COLUMNS; none where no loss is known."""
    found = incident(lake, wanted, loss_id)
    if found is None:
        return []
    steps = [(found.loss, step) for step in found.steps]
    for one in found.together:
        if one.loss["regression_id"] != found.loss["regression_id"]:
            steps += [(one.loss, lost_step(one.loss)), (one.loss, written(one.since, one.until))]
    return [
        {place: loss[place] for place in COLUMNS[:4]} | {"step": step.name, "ts": step.ts, "text": step.text}
        for loss, step in steps
    ]
