"""The rows of a lake that explain a loss: which loss is asked for, and what silver has of its partition up to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pipelines.errors import UsageError
from pipelines.lake.lake import Lake
from pipelines.lake.queries import VIEWS, Filter, Row, instant, query, rows, text
from pipelines.verdict.incident import Before, Step, chain
from schemas import isr_changes, partition_hw, replica_sync
from schemas.declaration import Table

IDS = "`hwmark show regressions --format json`"
"""What prints the ids of losses."""


@dataclass(frozen=True)
class Incident:
    """One loss, how it came about, and how many other losses there are where it was looked for."""

    loss: Row
    steps: Sequence[Step]
    others: int = 0

    @property
    def place(self) -> str:
        return f"{self.loss['cluster']}/{self.loss['topic']}-{self.loss['partition']}"


def incident(lake: Lake, wanted: Filter, loss_id: str | None) -> Incident | None:
    """The loss whose id begins with `loss_id`, else the newest of the weightiest that match; None where none is known.

    Raises UsageError for an id that no loss has.
    """
    loss, others = pick(lake, wanted, loss_id)
    return None if loss is None else Incident(loss, steps(lake, loss), others)


def steps(lake: Lake, loss: Row) -> list[Step]:
    """How a loss, a row of the view `serious`, came about."""
    return chain(loss, _before(lake, loss))


def pick(lake: Lake, wanted: Filter, loss_id: str | None) -> tuple[Row | None, int]:
    """The loss of `incident`, and how many more match. Raises UsageError as that."""
    if loss_id is not None:
        found, _ = rows(lake, "serious", replace(wanted, since=None), 1_000_000)
        same = [row for row in found if str(row["regression_id"]).startswith(loss_id)]
        if len(same) != 1:
            many = "more than one loss has" if same else "no loss has"
            raise UsageError(f"{many} an id that begins with {loss_id}; {IDS} has them")
        return same[0], 0
    found, matching = rows(lake, "serious", wanted, 1)
    return (found[-1], matching - 1) if found else (None, 0)


def _before(lake: Lake, loss: Row) -> Before:
    """What silver has of the partition of a loss up to it."""
    latest = VIEWS["isr"].latest
    epoch = f"leader_epoch = {int(loss['leader_epoch_before'])}" if loss["leader_epoch_before"] is not None else "false"
    return Before(
        _up_to(lake, isr_changes.TABLE, loss, f"QUALIFY row_number() OVER ({latest}) = 1", "change <> 'retracted'"),
        _up_to(lake, replica_sync.TABLE, loss),
        _up_to(lake, partition_hw.TABLE, loss, and_=epoch),
    )


def _up_to(lake: Lake, table: Table, loss: Row, latest: str = "", and_: str = "true") -> list[Row]:
    opened = lake.find(table)
    if opened is None:
        return []
    place = [f"cluster = {text(loss['cluster'])}", f"topic = {text(loss['topic'])}"]
    place += [f"partition = {int(loss['partition'])}", f"ts <= {instant(loss['ts'])}"]
    if loss["topic_id"] is not None:
        place.append(f"(topic_id IS NULL OR topic_id = {text(loss['topic_id'])})")
    within = f"SELECT * FROM t WHERE {' AND '.join(place)} {latest}"
    return query(opened, f"SELECT * FROM ({within}) WHERE {and_} ORDER BY ts")
